/* SPDX-License-Identifier: MIT */
/*
 * admin.c - one line each way over control.sock.
 */
#include "tests/support/admin.h"
#include "tests/support/harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static int connect_control(const char *dir) {
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int n = snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/control.sock", dir);
    CHECK(n > 0 && (size_t)n < sizeof(sa.sun_path), "path too long: %s", dir);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0, "socket: %s", strerror(errno));
    struct timeval tv = {.tv_sec = TEST_PATIENCE_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
    if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
        return fd;
    close(fd);
    return -1;
}

json_t *admin_call(const char *dir, const char *method, json_t *params) {
    int fd = connect_control(dir);
    if (fd < 0) {
        json_decref(params);
        return NULL;
    }
    json_t *request = json_pack("{s:s, s:i, s:s, s:o}", "jsonrpc", "2.0", "id", 1, "method", method,
                                "params", params ? params : json_object());
    char *text = json_dumps(request, JSON_COMPACT);
    CHECK(text, "cannot print the request");
    json_decref(request);
    size_t size = strlen(text);
    text[size] = '\n';
    ssize_t sent = send(fd, text, size + 1, MSG_NOSIGNAL);
    free(text);
    FILE *f = sent == (ssize_t)(size + 1) ? fdopen(fd, "r") : NULL;
    if (!f) {
        close(fd);
        return NULL;
    }
    char *line = NULL;
    size_t room = 0;
    json_t *reply = getline(&line, &room, f) > 0 ? json_loads(line, 0, NULL) : NULL;
    free(line);
    fclose(f);
    return reply;
}
