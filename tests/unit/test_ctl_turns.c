/* SPDX-License-Identifier: MIT */
/* Who asks much at control.sock, or for what takes long, leaves the control thread to others. */
#include "daemon/base/send_cost.h"
#include "daemon/ctl/rests.h"
#include "tests/unit/ctl_rig.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

static unsigned changed, burnt;
static uint64_t burnt_ns, between_ns; /* when the last was; between all of them */

static void do_change(struct ctl_call *call, const json_t *params) {
    (void)params;
    changed++;
    ctl_reply(call, json_object());
}

/* As a show of very many things takes its time. */
static void do_slow(struct ctl_call *call, const json_t *params) {
    usleep(5000);
    do_change(call, params);
}

/* So does the thread itself. */
#define BURN_NS (5 * NSEC_PER_MSEC)
static uint64_t burn_ns = BURN_NS;
static void do_burn(struct ctl_call *call, const json_t *params) {
    const uint64_t end_ns = send_cost_cpu_ns() + burn_ns;
    (void)params;
    between_ns += burnt ? clock_now_ns() - burnt_ns : 0;
    while (send_cost_cpu_ns() < end_ns)
        ;
    burnt++;
    burnt_ns = clock_now_ns();
    ctl_reply(call, json_object());
}

static const struct rpc_param none[] = {{NULL, RPC_END, false, 0}};
static const struct ctl_method methods[] = {
    {"change", do_change, none, CTL_SHOW},
    {"slow", do_slow, none, CTL_SHOW},
    {"burn", do_burn, none, CTL_SHOW},
};

static void set_up(void) {
    ctl_rig_up(methods, sizeof(methods) / sizeof(methods[0]));
}

TestSuite(ctl_turns, .init = set_up, .fini = ctl_rig_down, .timeout = 30);

static void order(int fd, const char *line, unsigned times) {
    for (unsigned i = 0; i < times; i++)
        cr_assert_eq(send(fd, line, strlen(line), 0), (ssize_t)strlen(line));
}

Test(ctl_turns, who_asks_much_at_once_leaves_the_thread_to_others) {
    enum { CALLS = 200 };
    int fd = dial();
    order(fd, ORDER("change"), CALLS);
    event_base_loop(st.base, EVLOOP_ONCE); /* one pass */
    cr_expect(changed && changed < CALLS / 4, "%u in a pass", changed);
    TURN_UNTIL(changed == CALLS);
    cr_expect_eq(changed, CALLS);
    close(fd);
    turn();
}

Test(ctl_turns, who_asks_what_takes_long_leaves_the_thread_to_others_after_each) {
    enum { CALLS = 6 };
    int fd = dial();
    order(fd, ORDER("slow"), CALLS);
    for (unsigned pass = 0; pass < 2 * CALLS && changed < CALLS; pass++) {
        unsigned before = changed;
        event_base_loop(st.base, EVLOOP_ONCE);
        cr_expect_leq(changed, before + 1, "pass %u", pass);
    }
    cr_expect_eq(changed, CALLS);
    close(fd);
    turn();
}

static void until_burnt(unsigned count) {
    while (burnt < count)
        event_base_loop(st.base, EVLOOP_ONCE);
}

Test(ctl_turns, all_connections_of_a_user_together_leave_half_of_the_thread_to_others) {
    enum { CONNS = 6, CALLS = 4, ALL = CONNS * CALLS };
    int fds[CONNS];
    for (int i = 0; i < CONNS; i++)
        fds[i] = dial();
    for (int i = 0; i < CONNS; i++)
        order(fds[i], ORDER("burn"), CALLS);
    until_burnt(ALL);
    cr_expect_geq(between_ns, (ALL - 1) * BURN_NS - REST_BEYOND_NS, "%lu us between %u calls",
                  (unsigned long)(between_ns / NSEC_PER_USEC), ALL);
    for (int i = 0; i < CONNS; i++)
        close(fds[i]);
    turn();
}

Test(ctl_turns, connections_of_a_user_that_has_rested_take_turns) {
    int greedy = dial(), other = dial();
    order(greedy, ORDER("burn"), 20);
    until_burnt(1);
    for (unsigned i = 0; i < 3; i++) {
        const unsigned before = burnt;
        order(other, ORDER("change"), 1);
        while (changed == i)
            event_base_loop(st.base, EVLOOP_ONCE);
        cr_expect_leq(burnt - before, 2, "%u calls of another came before it", burnt - before);
    }
    close(greedy);
    close(other);
    until_burnt(20);
    turn();
}

Test(ctl_turns, who_goes_while_it_rests_holds_nobody_up) {
    int greedy = dial(), gone = dial(), other = dial();
    order(greedy, ORDER("burn"), 1);
    until_burnt(1);
    order(gone, ORDER("burn"), 1);
    close(gone);
    order(other, ORDER("change"), 1);
    TURN_UNTIL(changed);
    cr_expect_eq(changed, 1);
    close(greedy);
    close(other);
    turn();
}

static unsigned count_open(void) {
    DIR *fds = opendir("/proc/self/fd");
    unsigned n = 0;
    cr_assert_not_null(fds);
    while (readdir(fds))
        n++;
    closedir(fds);
    return n;
}

/* Who has an answer goes. False when that took so long that its user may have rested since. */
static bool has_its_answer_and_goes(void) {
    const unsigned before = burnt;
    char answer[256];
    int fd = dial();
    order(fd, CALL("1", "burn"), 1);
    until_burnt(before + 1);
    while (recv(fd, answer, sizeof(answer), MSG_DONTWAIT) <= 0)
        event_base_loop(st.base, EVLOOP_NONBLOCK);
    close(fd);
    for (int i = 0; i < 20; i++)
        event_base_loop(st.base, EVLOOP_NONBLOCK);
    return clock_now_ns() < burnt_ns + burn_ns / 2;
}

/* A program that asks again and again makes a connection for each. */
Test(ctl_turns, who_has_its_answer_and_goes_leaves_its_place_at_once) {
    enum { TRIES = 5 };
    const unsigned before = count_open();
    unsigned tries = 1;
    burn_ns = 300 * NSEC_PER_MSEC;
    while (!has_its_answer_and_goes())
        if (tries++ == TRIES)
            cr_skip_test("the machine stood still each time");
    cr_expect_eq(count_open(), before, "it has its place while its user rests");
}

/* Each has its own rest, and there are no more of them than connections. */
Test(ctl_turns, any_number_of_users_come_and_go) {
    if (geteuid())
        cr_skip_test("needs root");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof(a.sun_path), "%s/control.sock", config.runtime_dir);
    cr_assert_eq(chmod(config.runtime_dir, 0755) || chmod(a.sun_path, 0666), 0);
    for (uid_t uid = 1000; uid < 1000 + 3 * RESTS_MAX; uid++) {
        pid_t pid = fork();
        if (!pid) {
            int fd = socket(AF_UNIX, SOCK_STREAM, 0);
            _exit(setresuid(uid, uid, uid) || connect(fd, (struct sockaddr *)&a, sizeof(a)) ||
                  write(fd, ORDER("change"), strlen(ORDER("change"))) < 0);
        }
        int status;
        cr_assert(waitpid(pid, &status, 0) == pid && !status);
        TURN_UNTIL(changed > uid - 1000);
        turn();
    }
    cr_expect_eq(changed, 3 * RESTS_MAX);
}
