/* SPDX-License-Identifier: MIT */
#include "tests/unit/ctl_rig.h"
#include "tests/unit/porter_rig.h"
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

struct config config;
struct state st;
struct ctl *ctl;
char heard[1 << 20];

static const struct ctl_method *all;
static size_t count_all;

const struct ctl_method *ctl_rig_find(const char *name) {
    for (size_t i = 0; i < count_all; i++)
        if (!strcmp(all[i].name, name))
            return &all[i];
    return NULL;
}

void ctl_rig_up(const struct ctl_method *methods, size_t count) {
    struct error err;
    all = methods;
    count_all = count;
    signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    snprintf(config.runtime_dir, sizeof(config.runtime_dir), "/tmp/rdmad-ctl-XXXXXX");
    cr_assert_not_null(mkdtemp(config.runtime_dir));
    st.config = &config;
    st.base = event_base_new();
    st.porter = porter_rig(st.base, NULL);
    cr_assert_eq(ctl_listen(&st, -1, ctl_rig_find, &ctl, &err), 0, "%s", err.text);
}

void ctl_rig_down(void) {
    ctl_free(ctl);
    porter_free(st.porter);
    event_base_free(st.base);
    cr_expect_eq(rmdir(config.runtime_dir), 0, "the socket is left behind");
}

void turn(void) {
    for (int i = 0; i < 20; i++)
        event_base_loop(st.base, EVLOOP_NONBLOCK);
}

int dial(void) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof(a.sun_path), "%s/control.sock", config.runtime_dir);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    turn();
    return fd;
}

void say(int fd, const char *data, size_t size) {
    while (size) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        }
        turn();
        if (n < 0 && errno != EAGAIN)
            return;
    }
}

bool hear(int fd) {
    size_t used = 0;
    for (int quiet = 0; quiet < 50;) {
        ssize_t n = recv(fd, heard + used, sizeof(heard) - 1 - used, 0);
        heard[used += n > 0 ? (size_t)n : 0] = '\0';
        if (n == 0)
            return false;
        quiet = n > 0 ? 0 : quiet + 1;
        if (quiet)
            usleep(1000); /* who has asked for much rests */
        turn();
    }
    return true;
}

void ask(int fd, const char *line) {
    say(fd, line, strlen(line));
    hear(fd);
}
