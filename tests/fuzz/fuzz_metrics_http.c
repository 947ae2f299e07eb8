/* SPDX-License-Identifier: MIT */
/*
 * What comes at the metrics' door: a request is judged once its head is whole, and by that alone,
 * in whatever pieces it comes; only GET /metrics is let in, and every answer fits its buffer.
 *
 * The first byte says how long the pieces are.
 */
#include "daemon/ctl/metrics_http.h"
#include "tests/fuzz/must.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_ROOM 512u /* as the door has it */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of a head that is whole. */
static size_t head_length(const char *bytes, size_t size) {
    const char *lf = memmem(bytes, size, "\n\n", 2), *crlf = memmem(bytes, size, "\n\r\n", 3);
    size_t a = lf ? (size_t)(lf - bytes) + 2 : SIZE_MAX;
    size_t b = crlf ? (size_t)(crlf - bytes) + 3 : SIZE_MAX;
    return a < b ? a : b;
}

/* In memory of just that size, so that reading behind it is noticed. */
static enum metrics_answer judge(const char *bytes, size_t size, bool *openmetrics) {
    char *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    enum metrics_answer answer = metrics_http_judge(copy, size, openmetrics);
    free(copy);
    return answer;
}

static void answered(enum metrics_answer answer, bool openmetrics, size_t body) {
    char *head = malloc(HEAD_ROOM);
    size_t n = metrics_http_head(answer, openmetrics, body, head, HEAD_ROOM);
    must(n > 0 && n < HEAD_ROOM && !memcmp(head + n - 4, "\r\n\r\n", 4));
    must(!memcmp(head, "HTTP/1.1 ", 9) && atoi(head + 9) == (int)answer);
    must(!metrics_http_head(answer, openmetrics, body, head, n)); /* it does not fit */
    const char *text = metrics_http_body(answer);
    must(*text && text[strlen(text) - 1] == '\n');
    free(head);
}

/* What is let in is what it has to be. */
static void let_in(const char *bytes, size_t size, bool openmetrics) {
    static const char want[] = "GET /metrics";
    must(size > sizeof(want) && !memcmp(bytes, want, sizeof(want) - 1));
    must(strchr(" ?", bytes[sizeof(want) - 1]) != NULL);
    if (openmetrics)
        must(memmem(bytes, size, "application/openmetrics-text", 28) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > METRICS_REQUEST_MAX + 1)
        return -1;
    const char *bytes = (const char *)data + 1;
    size_t all = size - 1, piece = 1 + (size_t)data[0] * 8, had = 0;
    size_t head = head_length(bytes, all);
    enum metrics_answer answer;
    bool openmetrics = false, again;
    do { /* as the door reads */
        had = all - had < piece ? all : had + piece;
        answer = judge(bytes, had, &openmetrics);
        must((answer == METRICS_MORE || answer == METRICS_LONG) == (had < head));
    } while (answer == METRICS_MORE && had < all);
    if (answer == METRICS_MORE)
        return 0;
    if (answer == METRICS_LONG)
        must(had >= METRICS_REQUEST_MAX);
    else
        must(judge(bytes, head, &again) == answer && again == openmetrics);
    if (answer == METRICS_OK)
        let_in(bytes, head, openmetrics);
    answered(answer, openmetrics, had);
    answered(METRICS_FULL, openmetrics, had);
    return 0;
}
