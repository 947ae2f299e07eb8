/* SPDX-License-Identifier: MIT */
/*
 * metrics_http.c - the head of a request is looked at as a whole, once all of it is there. What
 * comes behind it is never read: each connection has one request.
 */
#include "daemon/ctl/metrics_http.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DIALECT "application/openmetrics-text"

/* The length of the head with the empty line that ends it; 0: that has not come. */
static size_t head_of(const char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != '\n')
            continue;
        if (i + 1 < size && bytes[i + 1] == '\n')
            return i + 2;
        if (i + 2 < size && bytes[i + 1] == '\r' && bytes[i + 2] == '\n')
            return i + 3;
    }
    return 0;
}

static bool bytes_begin_with(const char *bytes, size_t size, const char *with) {
    size_t length = strlen(with);
    return size >= length && !memcmp(bytes, with, length);
}

static enum metrics_answer judge_line(const char *line, size_t size) {
    if (size && line[size - 1] == '\r')
        size--;
    if (memchr(line, '\0', size))
        return METRICS_BAD;
    const char *path = memchr(line, ' ', size);
    if (!path || path == line)
        return METRICS_BAD;
    path++;
    size_t left = size - (size_t)(path - line);
    const char *version = memchr(path, ' ', left);
    if (!version || !bytes_begin_with(version, left - (size_t)(version - path), " HTTP/1."))
        return METRICS_BAD;
    if (!bytes_begin_with(line, size, "GET "))
        return METRICS_METHOD;
    size_t length = (size_t)(version - path);
    const char *query = memchr(path, '?', length);
    if (query)
        length = (size_t)(query - path);
    return length == 8 && !memcmp(path, "/metrics", 8) ? METRICS_OK : METRICS_NOT_FOUND;
}

/* Whether a header line is an Accept that has the dialect in it. */
static bool accepts(const char *line, size_t size) {
    static const char name[] = "accept:";
    if (size < sizeof(name) - 1 || strncasecmp(line, name, sizeof(name) - 1) != 0)
        return false;
    return memmem(line, size, DIALECT, sizeof(DIALECT) - 1) != NULL;
}

enum metrics_answer metrics_http_judge(const char *bytes, size_t size, bool *openmetrics) {
    size_t head = head_of(bytes, size);
    *openmetrics = false;
    if (!head)
        return size >= METRICS_REQUEST_MAX ? METRICS_LONG : METRICS_MORE;
    const char *end = bytes + head, *line = bytes;
    const char *next = memchr(line, '\n', head);
    enum metrics_answer answer = judge_line(line, (size_t)(next - line));
    for (line = next + 1; line < end; line = next + 1) {
        next = memchr(line, '\n', (size_t)(end - line));
        *openmetrics |= accepts(line, (size_t)(next - line));
    }
    return answer;
}

static const char *reason(enum metrics_answer answer) {
    switch (answer) {
    case METRICS_OK:
        return "OK";
    case METRICS_NOT_FOUND:
        return "Not Found";
    case METRICS_METHOD:
        return "Method Not Allowed";
    case METRICS_LONG:
        return "Request Header Fields Too Large";
    case METRICS_FULL:
        return "Service Unavailable";
    default:
        return "Bad Request";
    }
}

const char *metrics_http_body(enum metrics_answer answer) {
    switch (answer) {
    case METRICS_NOT_FOUND:
        return "there is nothing here but /metrics\n";
    case METRICS_METHOD:
        return "this answers GET and nothing else\n";
    case METRICS_LONG:
        return "the head of a request has 4096 bytes at most\n";
    case METRICS_FULL:
        return "rdmad has no memory for an answer; try again\n";
    default:
        return "this is no request of HTTP/1\n";
    }
}

size_t metrics_http_head(enum metrics_answer answer, bool openmetrics, size_t body, char *head,
                         size_t room) {
    const char *type = answer != METRICS_OK ? "text/plain; charset=utf-8"
                       : openmetrics        ? DIALECT "; version=1.0.0; charset=utf-8"
                                            : "text/plain; version=0.0.4; charset=utf-8";
    int n = snprintf(head, room,
                     "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
                     "Connection: close\r\n\r\n",
                     (unsigned)answer, reason(answer), type, body,
                     answer == METRICS_METHOD ? "Allow: GET\r\n" : "");
    return n < 0 || (size_t)n >= room ? 0 : (size_t)n;
}
