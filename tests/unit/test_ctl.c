/* SPDX-License-Identifier: MIT */
/*
 * control.sock with a table of test methods: framing, bounds and rights, on a real socket and a
 * real event loop, which run in the test's own thread by turns.
 */
#include "tests/support/many_wait.h"
#include "tests/unit/ctl_rig.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static struct ctl_call *waiting;
static unsigned changed;

static void do_echo(struct ctl_call *call, const json_t *params) {
    ctl_reply(call, json_pack("{s:s}", "said", rpc_text(params, "text")));
}
static void do_later(struct ctl_call *call, const json_t *params) {
    (void)params;
    waiting = call;
}
static struct ctl_call *held[64];
static unsigned nheld;
static void do_hold(struct ctl_call *call, const json_t *params) {
    (void)params;
    held[nheld++] = call;
}
static void do_change(struct ctl_call *call, const json_t *params) {
    (void)params;
    changed++;
    ctl_reply(call, json_object());
}
static void do_fail(struct ctl_call *call, const json_t *params) {
    (void)params;
    struct error why;
    error_set(&why, RDMAD_E_NO_LEASE, "no lease 9");
    ctl_fail(call, &why);
}
static void do_large(struct ctl_call *call, const json_t *params) {
    (void)params;
    char *text = calloc(1, 300001);
    memset(text, 'x', 300000);
    ctl_reply(call, json_pack("{s:s}", "large", text));
    free(text);
}

/* What a connection has begun. */
static struct ctl_hold begun;
static unsigned gone;
static void do_gone(struct ctl_hold *hold) {
    cr_assert_eq(hold, &begun);
    gone++;
}
static void do_begin(struct ctl_call *call, const json_t *params) {
    (void)params;
    begun.gone = do_gone;
    if (!ctl_held(call))
        ctl_hold(call, &begun);
    else
        ctl_hold(call, NULL);
    ctl_reply(call, json_object());
}

static const struct rpc_param none[] = {{NULL, RPC_END, false, 0}};
static const struct rpc_param text[] = {{"text", RPC_TEXT, true, 60000}, {NULL, RPC_END, false, 0}};
static const struct ctl_method methods[] = {
    {"echo", do_echo, text, false},    {"later", do_later, none, false},
    {"change", do_change, none, true}, {"fail", do_fail, none, false},
    {"large", do_large, none, false},  {"hold", do_hold, none, false},
    {"begin", do_begin, none, false},
};

static void set_up(void) {
    ctl_rig_up(methods, sizeof(methods) / sizeof(methods[0]));
}

TestSuite(ctl, .init = set_up, .fini = ctl_rig_down, .timeout = 30);

Test(ctl, the_socket_is_for_owner_and_group) {
    char path[200];
    struct stat s;
    snprintf(path, sizeof(path), "%s/control.sock", config.runtime_dir);
    cr_assert_eq(stat(path, &s), 0);
    cr_expect_eq(s.st_mode & 0777, 0660);
}

Test(ctl, a_call_is_answered_on_one_line) {
    int fd = dial();
    ask(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":{\"text\":\"hi\"}}\n");
    cr_expect_str_eq(heard, "{\"jsonrpc\":\"2.0\",\"result\":{\"said\":\"hi\"},\"id\":1}\n");
    close(fd);
    turn();
}

Test(ctl, a_line_may_come_byte_by_byte_and_many_at_once) {
    int fd = dial();
    const char *line = CALL("1", "change");
    for (const char *c = line; *c; c++)
        say(fd, c, 1);
    hear(fd);
    cr_expect_eq(changed, 1);
    for (int i = 0; i < 40; i++)
        cr_assert_eq(send(fd, line, strlen(line), 0), (ssize_t)strlen(line));
    hear(fd);
    cr_expect_eq(changed, 41, "%u", changed);
    close(fd);
    turn();
}

Test(ctl, each_mistake_has_its_code_and_the_connection_lives) {
    static const char *const wrong[][2] = {
        {"nonsense\n", "-32700"},
        {"\n", "-32700"},
        {"[]\n", "-32600"},
        {CALL("1", "nothing"), "-32601"},
        {CALL("1", "echo"), "-32602"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"fail\",\"params\":{\"x\":1}}\n", "-32602"},
        {CALL("1", "fail"), "-32015"},
    };
    int fd = dial();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ask(fd, wrong[i][0]);
        cr_expect(strstr(heard, wrong[i][1]), "%s -> %s", wrong[i][0], heard);
        cr_expect(strstr(heard, "\"data\":{\"code\":\"RDMAD_E_"), "%s", heard);
    }
    ask(fd, CALL("9", "change"));
    cr_expect_eq(changed, 1);
    close(fd);
    turn();
}

Test(ctl, a_line_too_long_is_answered_and_ends_the_connection) {
    int fd = dial();
    char *line = malloc(70001);
    memset(line, 'a', 70000);
    say(fd, line, 70000);
    cr_expect_not(hear(fd), "the connection is still open");
    cr_expect(strstr(heard, "65536 bytes"), "%s", heard);
    free(line);
    close(fd);
    turn();
}

Test(ctl, a_cut_off_line_is_not_a_call) {
    int fd = dial();
    const char *line = CALL("1", "change");
    say(fd, line, strlen(line) - 1);
    shutdown(fd, SHUT_WR);
    cr_expect_not(hear(fd));
    cr_expect_eq(changed, 0);
    close(fd);
    turn();
}

Test(ctl, who_closed_its_side_still_gets_its_answer) {
    int fd = dial();
    say(fd, CALL("1", "later"), strlen(CALL("1", "later")));
    shutdown(fd, SHUT_WR);
    turn();
    cr_assert_not_null(waiting);
    ctl_reply(waiting, json_pack("{s:i}", "n", 5));
    cr_expect_not(hear(fd), "and then the end");
    cr_expect(strstr(heard, "\"n\":5"), "%s", heard);
    close(fd);
    turn();
}

/* jansson's memory runs out. */
static void *no_memory(size_t size) {
    (void)size;
    return NULL;
}

Test(ctl, who_cannot_be_answered_sees_the_connection_end) {
    int fd = dial();
    say(fd, CALL("1", "later"), strlen(CALL("1", "later")));
    cr_assert_not_null(waiting);
    json_t *result = json_object();
    json_set_alloc_funcs(no_memory, free);
    ctl_reply(waiting, result);
    json_set_alloc_funcs(malloc, free);
    turn();
    char byte;
    cr_assert_eq(recv(fd, &byte, 1, MSG_DONTWAIT), 0, "it waits for an answer that never comes");
    close(fd);
    turn();
}

Test(ctl, an_answer_to_nobody_is_dropped) {
    int fd = dial();
    say(fd, CALL("1", "later"), strlen(CALL("1", "later")));
    close(fd);
    turn();
    cr_assert_not_null(waiting);
    ctl_reply(waiting, json_object());
    turn();
}

Test(ctl, an_answer_after_the_end_of_it_all_is_dropped) {
    int fd = dial();
    say(fd, CALL("1", "later"), strlen(CALL("1", "later")));
    struct error err;
    ctl_free(ctl);
    ctl_reply(waiting, json_object());
    cr_assert_eq(ctl_listen(&st, -1, ctl_rig_find, &ctl, &err), 0, "%s", err.text);
    close(fd);
}

Test(ctl, what_a_connection_has_begun_ends_with_it_alone) {
    int fd = dial(), other = dial();
    ask(fd, CALL("1", "begin"));
    ask(other, CALL("1", "change"));
    close(other);
    turn();
    cr_expect_eq(gone, 0, "another connection's end ended it");
    ask(fd, CALL("1", "change"));
    cr_expect_eq(gone, 0);
    close(fd);
    turn();
    cr_expect_eq(gone, 1);

    fd = dial();
    ask(fd, CALL("1", "begin"));
    ask(fd, CALL("2", "begin")); /* which ends it by itself */
    close(fd);
    turn();
    cr_expect_eq(gone, 1);

    fd = dial();
    ask(fd, CALL("1", "begin"));
    struct error err;
    ctl_free(ctl);
    cr_expect_eq(gone, 2, "the end of it all");
    cr_assert_eq(ctl_listen(&st, -1, ctl_rig_find, &ctl, &err), 0, "%s", err.text);
    close(fd);
}

Test(ctl, a_notification_runs_and_gets_no_answer) {
    int fd = dial();
    ask(fd, "{\"jsonrpc\":\"2.0\",\"method\":\"change\"}\n");
    cr_expect_str_empty(heard);
    cr_expect_eq(changed, 1);
    close(fd);
    turn();
}

Test(ctl, a_reader_that_does_not_read_is_not_served_further) {
    int fd = dial();
    const char *line = CALL("1", "large"), *change = CALL("2", "change");
    for (int i = 0; i < 20; i++)
        cr_assert_eq(send(fd, line, strlen(line), 0), (ssize_t)strlen(line));
    cr_assert_eq(send(fd, change, strlen(change), 0), (ssize_t)strlen(change));
    for (int i = 0; i < 20; i++)
        turn();
    cr_expect_eq(changed, 0, "answers pile up without a bound");
    size_t total = 0;
    for (int i = 0; i < 1000 && !changed; i++) {
        hear(fd);
        total += strlen(heard);
    }
    cr_expect_eq(changed, 1, "it is served again once it reads");
    cr_expect_gt(total, 6000000);
    close(fd);
    turn();
}

static unsigned lines_heard(int fd) {
    unsigned lines = 0;
    ssize_t n = recv(fd, heard, sizeof(heard), 0);
    for (ssize_t i = 0; i < n; i++)
        lines += heard[i] == '\n';
    return lines;
}

Test(ctl, at_whose_end_very_many_wait_is_answered_rarely_and_in_full) {
    enum { CALLS = 20 };
    struct many_wait many;
    int fd = dial();
    const char *line = CALL("1", "change");
    cr_assert(many_wait_begin(&many, fd), "%s", strerror(errno));
    unsigned got = 0, times = 0;
    for (int i = 0; i < CALLS; i++) {
        cr_assert_eq(send(fd, line, strlen(line), 0), (ssize_t)strlen(line));
        turn();
        unsigned lines = lines_heard(fd);
        got += lines;
        times += lines > 0;
    }
    cr_expect(times >= 2 && times < CALLS, "each call was answered at once");
    many_wait_end(&many);
    for (int i = 0; i < 20000 && got < CALLS; i++) {
        turn();
        got += lines_heard(fd);
        usleep(1000);
    }
    cr_expect_eq(got, CALLS);
    cr_expect_eq(changed, CALLS);
    close(fd);
    turn();
}

Test(ctl, calls_that_wait_are_bounded_and_the_next_are_looked_at_when_one_is_answered) {
    int fd = dial();
    const char *line = CALL("1", "hold");
    for (unsigned i = 0; i < 40; i++)
        cr_assert_eq(send(fd, line, strlen(line), 0), (ssize_t)strlen(line));
    TURN_UNTIL(nheld >= 32);
    turn();
    cr_assert_eq(nheld, 32, "%u calls wait", nheld);
    ctl_reply(held[0], json_object());
    TURN_UNTIL(nheld >= 33);
    turn();
    cr_expect_eq(nheld, 33);
    for (unsigned i = 1; i < nheld; i++) {
        ctl_reply(held[i], json_object());
        TURN_UNTIL(nheld > i + 1 || nheld == 40);
    }
    cr_expect_eq(nheld, 40);
    close(fd);
    turn();
}

Test(ctl, connections_are_bounded_and_come_free_again) {
    int fds[16];
    for (int i = 0; i < 16; i++)
        fds[i] = dial();
    int more = dial();
    cr_expect_not(hear(more));
    cr_expect(strstr(heard, "too many connections"), "%s", heard);
    close(more);
    close(fds[3]);
    turn();
    fds[3] = dial();
    ask(fds[3], CALL("1", "change"));
    cr_expect_eq(changed, 1);
    for (int i = 0; i < 16; i++)
        close(fds[i]);
    turn();
}

/* What another uid may do; needs root to become one. */
static void as_nobody(const char *line, int conns, char *answer, size_t size) {
    int pipes[2];
    cr_assert_eq(pipe(pipes), 0);
    char path[100];
    snprintf(path, sizeof(path), "%s/control.sock", config.runtime_dir);
    cr_assert_eq(chmod(config.runtime_dir, 0755) || chmod(path, 0666), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        strcpy(a.sun_path, path);
        if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
            _exit(1);
        char got[4096] = "";
        for (int i = 0; i < conns; i++) {
            int fd = socket(AF_UNIX, SOCK_STREAM, 0);
            if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
                _exit(2);
            (void)!write(fd, line, strlen(line));
            ssize_t n = read(fd, got, sizeof(got) - 1);
            got[n > 0 ? n : 0] = '\0';
        }
        (void)!write(pipes[1], got, strlen(got));
        _exit(0);
    }
    close(pipes[1]);
    struct pollfd p = {.fd = pipes[0], .events = POLLIN};
    while (!poll(&p, 1, 1))
        turn();
    ssize_t n = read(pipes[0], answer, size - 1);
    answer[n > 0 ? n : 0] = '\0';
    close(pipes[0]);
    turn();
}

Test(ctl, another_uid_may_look_but_not_change) {
    if (geteuid())
        cr_skip_test("needs root");
    char answer[4096];
    as_nobody(CALL("1", "change"), 1, answer, sizeof(answer));
    cr_expect(strstr(answer, "RDMAD_E_PERM") && strstr(answer, "uid 65534"), "%s", answer);
    cr_expect_eq(changed, 0);
    as_nobody(CALL("1", "fail"), 1, answer, sizeof(answer));
    cr_expect(strstr(answer, "no lease 9"), "%s", answer);
}

Test(ctl, readers_cannot_lock_an_administrator_out) {
    if (geteuid())
        cr_skip_test("needs root");
    char answer[4096];
    int fds[12];
    for (int i = 0; i < 12; i++)
        fds[i] = dial();
    as_nobody(CALL("1", "fail"), 1, answer, sizeof(answer));
    cr_expect(strstr(answer, "too many connections"), "%s", answer);
    int admin = dial();
    ask(admin, CALL("1", "change"));
    cr_expect_eq(changed, 1);
    close(admin);
    for (int i = 0; i < 12; i++)
        close(fds[i]);
    turn();
}

Test(ctl, a_thousand_bad_connections_leave_no_descriptor) {
    unsigned before = 0, after = 0;
    for (int round = 0; round < 2; round++) {
        DIR *dir = opendir("/proc/self/fd");
        unsigned n = 0;
        while (readdir(dir))
            n++;
        closedir(dir);
        *(round ? &after : &before) = n;
        for (int i = 0; !round && i < 1000; i++) {
            int fd = dial();
            say(fd, "{\"id\":", 6);
            close(fd);
            turn();
        }
    }
    cr_expect_eq(after, before);
}

static void say_with_descriptor(int fd, int flags) {
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {"x", 1};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &(int){STDIN_FILENO}, sizeof(int));
    cr_assert_eq(sendmsg(fd, &m, MSG_NOSIGNAL | flags), 1);
    turn();
}

/* Even out of band, where a peek would not see them. */
Test(ctl, who_sends_a_descriptor_is_closed) {
    for (int flags = 0; flags <= MSG_OOB; flags += MSG_OOB) {
        int fd = dial();
        ask(fd, CALL("1", "change"));
        say_with_descriptor(fd, flags);
        cr_expect_not(hear(fd), "flags %d", flags);
        close(fd);
    }
    cr_expect_eq(changed, 2);
}
