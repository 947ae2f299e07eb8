/* SPDX-License-Identifier: MIT */
/*
 * client.c - calls to the daemon over control.sock: connect, a line out, a line in, within the time
 * that the caller or --timeout allows.
 */
#include "common/runtime_dir.h"
#include "rdmactl/cli.h"
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MAX (256u << 20)

__attribute__((format(printf, 3, 4))) static int failure_set(struct failure *why, const char *code,
                                                             const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    vsnprintf(why->text, sizeof(why->text), format, ap);
    va_end(ap);
    snprintf(why->code, sizeof(why->code), "%s", code);
    return -1;
}

static int client_no_answer(struct failure *why, uint64_t timeout_ms) {
    char state[160], span[CELL_MAX];
    return failure_set(why, "RDMAD_E_TIMEOUT",
                       "rdmad does not answer on %s/control.sock: waited %s; %s (--timeout SECONDS "
                       "waits longer)",
                       cli.dir, cli_human_seconds(span, (double)timeout_ms / 1e3),
                       daemon_state(state, sizeof(state)));
}

static int client_connect(uint64_t timeout_ms, struct failure *why) {
    int fd = daemon_connect("control.sock", SOCK_STREAM, timeout_ms);
    if (fd >= 0)
        return fd;
    int saved = errno;
    if (saved == ENAMETOOLONG)
        return failure_set(why, "RDMAD_E_INVAL", "runtime directory %s: the path is too long",
                           cli.dir);
    if (saved == EAGAIN)
        return client_no_answer(why, timeout_ms);
    if (saved == EACCES)
        return failure_set(why, "RDMAD_E_PERM",
                           "%s/control.sock may be opened by root and the daemon's user and group "
                           "only",
                           cli.dir);
    char own[RDMAD_RUNTIME_DIR_MAX];
    bool also = cli.dir == cli.default_dir && saved == ENOENT && rdmad_user_dir(own);
    return failure_set(
        why, "RDMAD_E_NO_DAEMON",
        "no rdmad answers on %s/control.sock (%s)%s%s; start it, or name its runtime directory "
        "with -d",
        cli.dir, strerror(saved), also ? ", nor is there one of this user's own in " : "",
        also ? own : "");
}

static int client_send(int fd, const char *data, size_t size, struct failure *why) {
    while (size) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
            return failure_set(why, "RDMAD_E_DAEMON_LOST",
                               "rdmad closed the connection: it has ended, or is upgraded; ask "
                               "again when it is back");
        if (n < 0)
            return failure_set(why, "RDMAD_E_DAEMON_LOST", "control.sock: %s", strerror(errno));
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

static long long client_now_ms(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

/* Reads up to the end of the line into *line, which grows. */
static int client_receive(int fd, char **line, size_t *size, uint64_t timeout_ms,
                          struct failure *why) {
    size_t room = 0;
    long long deadline = client_now_ms() + (long long)timeout_ms;
    for (*size = 0;;) {
        if (*size == room) {
            room = room ? 2 * room : 65536;
            char *grown = room <= ANSWER_MAX ? realloc(*line, room) : NULL;
            if (!grown)
                return failure_set(why, "RDMAD_E_NOMEM", "the daemon's answer is too long");
            *line = grown;
        }
        long long left = deadline - client_now_ms();
        int ready = left > 0 ? poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, (int)left) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return client_no_answer(why, timeout_ms);
        ssize_t n = recv(fd, *line + *size, room - *size, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return failure_set(why, "RDMAD_E_DAEMON_LOST",
                               "rdmad closed the connection before it answered");
        *size += (size_t)n;
        if ((*line)[*size - 1] == '\n')
            return 0;
    }
}

/* Takes the answer apart; takes over doc. */
static json_t *client_answer(json_t *doc, struct failure *why) {
    json_t *result = json_incref(json_object_get(doc, "result"));
    if (!result) {
        json_t *data = json_object_get(json_object_get(doc, "error"), "data");
        const char *code = json_string_value(json_object_get(data, "code"));
        const char *text = json_string_value(json_object_get(data, "text"));
        failure_set(why, code ? code : "RDMAD_E_PROTOCOL", "%s",
                    text ? text : "rdmad's answer makes no sense");
    }
    json_decref(doc);
    if (!cli.json) /* it is for a person to read */
        cli_safe_json(result);
    return result;
}

int daemon_dial(uint64_t patience, struct failure *why) {
    return client_connect(patience_ms(patience), why);
}

json_t *daemon_ask(int fd, const char *method, json_t *params, uint64_t patience,
                   struct failure *why) {
    uint64_t timeout_ms = patience_ms(patience);
    json_t *request = json_pack("{s:s, s:i, s:s}", "jsonrpc", "2.0", "id", 1, "method", method);
    if (params)
        json_object_set_new(request, "params", params);
    char *text = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    char *line = NULL;
    size_t size = 0;
    json_t *result = NULL;
    int rc = text ? client_send(fd, text, strlen(text), why)
                  : failure_set(why, "RDMAD_E_NOMEM", "out of memory for the request");
    if (!rc && !client_send(fd, "\n", 1, why) &&
        !client_receive(fd, &line, &size, timeout_ms, why)) {
        json_t *doc = json_loadb(line, size, 0, NULL);
        if (doc)
            result = client_answer(doc, why);
        else
            failure_set(why, "RDMAD_E_PROTOCOL", "rdmad's answer is not JSON");
    }
    free(line);
    free(text);
    return result;
}

json_t *daemon_try(const char *method, json_t *params, uint64_t patience, struct failure *why) {
    int fd = daemon_dial(patience, why);
    if (fd < 0) {
        json_decref(params);
        return NULL;
    }
    json_t *result = daemon_ask(fd, method, params, patience, why);
    close(fd);
    return result;
}

json_t *daemon_call(const char *method, json_t *params, uint64_t patience) {
    struct failure why;
    json_t *result = daemon_try(method, params, patience, &why);
    if (!result)
        cli_fail(why.code, "%s", why.text);
    return result;
}
