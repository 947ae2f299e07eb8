/* SPDX-License-Identifier: MIT */
/*
 * The daemon's side of the porter: what waits for it waits in order and is bounded by not letting
 * anybody else in, and the daemon's reference to a stranger's socket is never the last.
 */
#include "common/fdmsg.h"
#include "daemon/ipc/client_socket.h"
#include "daemon/porter/messages.h"
#include "tests/unit/porter_rig.h"
#include <dirent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define STRANGERS 600u /* more than the pair takes, and 256 in the daemon's queue */

static struct event_base *base;
static struct porter *porter;
static bool crowded;
static unsigned tellings;

static void on_crowded(void *user, bool now) {
    (void)user;
    cr_assert_neq(now, crowded, "told twice");
    crowded = now;
    tellings++;
}

static void set_up(void) {
    base = event_base_new();
    porter = porter_rig(base, on_crowded);
}

static void tear_down(void) {
    porter_free(porter);
    event_base_free(base);
}

TestSuite(porter, .init = set_up, .fini = tear_down, .timeout = 90);

static unsigned fds_of(pid_t pid) {
    char path[64];
    unsigned n = 0;
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static void turn_until_quiet(unsigned ours) {
    for (int i = 0; i < 5000 && (fds_of(getpid()) != ours || crowded); i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        usleep(1000);
    }
}

/* It holds the three standard descriptors and its end of the pair; readdir shows . and .., too. */
static void expect_porter_at_rest(void) {
    unsigned held = 0;
    for (int i = 0; i < 5000 && (held = fds_of(porter_pid(porter))) != 6; i++)
        usleep(1000);
    cr_expect_eq(held, 6);
}

/* A stranger who left something unread and went. Returns the guest, to part with. */
static struct client_socket *stranger(int *theirs) {
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    cr_assert_eq(send(pair[1], "x", 1, 0), 1);
    *theirs = pair[1];
    return client_socket_new(porter, pair[0], (struct user_id){.uid = 1000});
}

Test(porter, who_left_nothing_unread_costs_it_nothing) {
    int pair[2];
    porter_stop(porter_pid(porter)); /* it could not help */
    unsigned before = fds_of(getpid());
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    client_socket_close(client_socket_new(porter, pair[0], (struct user_id){.uid = 1000}));
    char byte;
    cr_expect_eq(recv(pair[1], &byte, 1, MSG_DONTWAIT), 0, "the stranger sees the end");
    close(pair[1]);
    cr_expect_eq(fds_of(getpid()), before);
    kill(porter_pid(porter), SIGCONT);
}

Test(porter, a_stranger_sees_the_end_at_once_though_the_porter_sleeps) {
    int theirs;
    char byte;
    porter_stop(porter_pid(porter));
    client_socket_close(stranger(&theirs));
    cr_expect_eq(recv(theirs, &byte, 1, MSG_DONTWAIT), 0);
    cr_expect_eq(send(theirs, "y", 1, MSG_NOSIGNAL), -1);
    close(theirs);
    kill(porter_pid(porter), SIGCONT);
}

Test(porter, what_it_cannot_take_waits_and_nobody_else_is_let_in) {
    unsigned before = fds_of(getpid());
    porter_stop(porter_pid(porter));
    for (unsigned i = 0; i < STRANGERS; i++) {
        int theirs;
        client_socket_close(stranger(&theirs));
        close(theirs);
    }
    cr_expect(crowded);
    cr_expect_gt(fds_of(getpid()), before, "what waits is held");
    kill(porter_pid(porter), SIGCONT);
    turn_until_quiet(before);
    cr_expect_not(crowded);
    cr_expect_eq(tellings, 2);
    cr_expect_eq(fds_of(getpid()), before, "of ours");
    expect_porter_at_rest();
}

/* It inherits the pair with what is in it. */
Test(porter, what_a_killed_porter_left_is_taken_by_the_next) {
    unsigned before = fds_of(getpid());
    pid_t first = porter_pid(porter);
    porter_stop(first);
    for (unsigned i = 0; i < STRANGERS; i++) {
        int theirs;
        client_socket_close(stranger(&theirs));
        close(theirs);
    }
    kill(first, SIGKILL);
    turn_until_quiet(before);
    cr_expect_neq(porter_pid(porter), first);
    cr_expect_eq(porter_restarts(porter), 1);
    cr_expect_eq(fds_of(getpid()), before);
    expect_porter_at_rest();
}

Test(porter, it_ends_with_the_daemon) {
    pid_t pid = porter_pid(porter);
    porter_free(porter);
    cr_expect_eq(kill(pid, 0), -1, "it is gone, and reaped");
    porter = porter_rig(base, on_crowded);
}

/* ---- a porter that stops half way ----------------------------------------------------------- */

static void use_half_porter(const char *how) {
    porter_free(porter);
    setenv("HALF_PORTER", how, 1);
    porter = porter_rig_of("tests/half_porter", base, on_crowded);
}

static void part_with(unsigned strangers) {
    for (unsigned i = 0; i < strangers; i++) {
        int theirs;
        client_socket_close(stranger(&theirs));
        close(theirs);
    }
}

/* It has 5 s for each answer. */
static void expect_replaced(unsigned times) {
    for (int i = 0; i < 20000 && porter_restarts(porter) < times; i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        usleep(1000);
    }
    cr_expect_geq(porter_restarts(porter), times, "nobody noticed that the porter stands still");
}

/* Else it would lie there until somebody else brings something. */
Test(porter, what_it_is_sent_between_a_question_and_its_answer_is_watched_over_too) {
    use_half_porter("one-answer");
    part_with(2);
    expect_replaced(1);
}

Test(porter, one_that_finds_too_much_to_be_asked_anything_is_watched_over_too) {
    use_half_porter("deaf");
    part_with(STRANGERS);
    expect_replaced(2);
}

/* Stops this process while the porter owes an answer, which it gives meanwhile or afterwards. */
static void stand_still(pid_t us, pid_t the_porter, useconds_t us_long, bool answers_meanwhile) {
    usleep(100000); /* until the loop waits: when it goes on it looks at the time first */
    kill(us, SIGSTOP);
    if (answers_meanwhile)
        kill(the_porter, SIGCONT);
    usleep(us_long);
    kill(us, SIGCONT);
    usleep(100000);
    kill(the_porter, SIGCONT);
    _exit(0);
}

static void expect_kept(useconds_t us_long, bool answers_meanwhile) {
    int theirs;
    pid_t us = getpid(), the_porter = porter_pid(porter);
    porter_stop(the_porter);
    client_socket_close(stranger(&theirs));
    pid_t stopper = fork();
    if (stopper == 0)
        stand_still(us, the_porter, us_long, answers_meanwhile);
    event_base_loop(base, EVLOOP_ONCE);
    for (int i = 0; i < 500; i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        usleep(1000);
    }
    cr_expect_eq(porter_restarts(porter), 0);
    waitpid(stopper, NULL, 0);
    close(theirs);
}

/* It has 5 s. */
Test(porter, it_has_answered_who_stood_still_himself) {
    expect_kept(5500000, true);
}

Test(porter, it_has_time_to_answer_who_stood_still_for_long) {
    expect_kept(7000000, false);
}

/* ---- the process alone, spoken to by hand --------------------------------------------------- */

static pid_t spawn_porter(int *ours) {
    char program[512];
    char *const argv[] = {program, (char *)(uintptr_t)PORTER_OPTION, NULL}, *const none[] = {NULL};
    posix_spawn_file_actions_t actions;
    int pair[2];
    pid_t pid;
    snprintf(program, sizeof(program), "%s/daemon/rdmad", getenv("RDMAD_BUILD"));
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[1], PORTER_FD);
    cr_assert_eq(posix_spawn(&pid, program, &actions, NULL, argv, none), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    *ours = pair[0];
    return pid;
}

static void ask_porter(int sock, uint32_t what, int fd) {
    struct porter_request rq = {.ask = what, .user = 1000, .id = 1};
    cr_assert_eq(rdmad_fdmsg_send(sock, &rq, sizeof(rq), &fd, fd >= 0), 0);
}

/* Else the daemon's own, which it closes in the meantime, would be the last. */
Test(porter, a_last_reference_is_let_go_of_only_when_the_daemon_has_closed_its_own) {
    int sock, ends[2], stranger_pair[2];
    pid_t pid = spawn_porter(&sock);
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, stranger_pair), 0);
    cr_assert_eq(rdmad_fdmsg_send(stranger_pair[1], "x", 1, &ends[1], 1), 0);
    close(ends[1]);
    close(stranger_pair[1]);
    ask_porter(sock, PORTER_END, stranger_pair[0]);
    close(stranger_pair[0]);
    struct pollfd gone = {.fd = ends[0]};
    cr_expect_eq(poll(&gone, 1, 300), 0, "it let go before it was told to");
    ask_porter(sock, PORTER_GO, -1);
    cr_expect_eq(poll(&gone, 1, 10000), 1, "it keeps what is its to let go of");
    cr_expect(gone.revents & POLLHUP);
    close(sock);
    cr_expect_eq(waitpid(pid, NULL, 0), pid);
}
