/* SPDX-License-Identifier: MIT */
/*
 * A user who asks for ten times of everything: it never has more than its limits, the last part of
 * each total is for others, and when it is gone all is as it was.
 */
#include "tests/support/harness.h"
#include "tests/support/rawclient.h"
#include <errno.h>
#include <grp.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GREEDY 65528u
#define OTHER 65527u
#define SESSIONS 160u /* of all; an eighth is for others */
#define MIB ((size_t)1 << 20)
#define POOL_BYTES (64 * MIB)
#define ASKS (10 * SESSIONS)
#define COME_AT_ONCE 130u

static struct tdaemon *start(const char *rules) {
    char path[] = "/tmp/rdmad-limits-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0 &&
              dprintf(file,
                      "{\"limits\": {\"sessions\": %u, \"sessions_per_uid\": %u, \"pool_bytes\": "
                      "%zu, \"pool_bytes_per_uid\": %zu, \"pool_bytes_per_session\": %zu}%s}",
                      SESSIONS, SESSIONS, POOL_BYTES, POOL_BYTES, POOL_BYTES, rules) > 0 &&
              !close(file),
          "%s", strerror(errno));
    struct tdaemon *d = tdaemon_start("127.0.0.1", (const char *[]){"--config", path, NULL});
    unlink(path);
    return d;
}

static void become(uid_t uid) {
    CHECK(!setgroups(0, NULL) && !setresgid(uid, uid, uid) && !setresuid(uid, uid, uid),
          "cannot become uid %u", (unsigned)uid);
}

/* How many of many sessions are let in; they stay open. Why the first was not goes to why. */
static unsigned open_many(const char *dir, unsigned count, int *socks, char *why) {
    struct rdmad_hello_req hello = {.name = "greedy"};
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++) {
        int sock = raw_connect(dir);
        struct raw_packet said;
        struct {
            struct rdmad_msg_header header;
            struct rdmad_hello_req body;
        } message = {.body = hello};
        raw_header(&message.header, RDMAD_MSG_HELLO, sizeof(hello));
        (void)raw_send(sock, &message, sizeof(message), NULL, 0);
        bool heard = raw_recv(sock, &said, (int)TEST_PATIENCE_MS);
        if (heard && said.size && said.header.type == (RDMAD_MSG_HELLO | RDMAD_MSG_REPLY)) {
            socks[n++] = sock;
            continue;
        }
        if (heard && said.size && !*why)
            snprintf(why, RDMAD_TEXT_MAX + 1, "%s", raw_text(&said));
        close(sock);
    }
    return n;
}

/* As many MiB as the sessions get, of many that they ask for. */
static unsigned take_bytes(const int *socks, unsigned nsocks, unsigned asks, char *why) {
    struct rdmad_pool_create_req req = {.bytes = MIB};
    struct raw_packet reply;
    unsigned got = 0;
    for (unsigned i = 0; i < asks; i++) {
        int status =
            raw_request(socks[i % nsocks], RDMAD_MSG_POOL_CREATE, &req, sizeof(req), &reply);
        got += status == 0;
        if (status && !*why)
            snprintf(why, RDMAD_TEXT_MAX + 1, "%s", raw_text(&reply));
        raw_drop(&reply);
    }
    return got;
}

struct told {
    unsigned sessions, mib;
    char no_session[RDMAD_TEXT_MAX + 1], no_bytes[RDMAD_TEXT_MAX + 1];
};

static struct told ask_for_all(const char *dir, unsigned asks) {
    int *socks = calloc(asks, sizeof(*socks));
    struct told t = {0};
    t.sessions = open_many(dir, asks, socks, t.no_session);
    if (t.sessions)
        t.mib = take_bytes(socks, t.sessions, 10 * (unsigned)(POOL_BYTES / MIB), t.no_bytes);
    free(socks);
    return t;
}

/* A process of uid that asks for all, tells what it got, and stays until it is told to go. */
static pid_t start_user(uid_t uid, const char *dir, unsigned asks, int tell[2], int go[2]) {
    CHECK(pipe(tell) == 0 && pipe(go) == 0, "pipe");
    pid_t pid = fork();
    if (pid) {
        close(tell[1]);
        close(go[0]);
        return pid;
    }
    char c;
    become(uid);
    struct told t = ask_for_all(dir, asks);
    if (write(tell[1], &t, sizeof(t)) != sizeof(t))
        _exit(1);
    close(go[1]);
    _exit(read(go[0], &c, 1) != 1);
}

static struct told hear(int fd) {
    struct told t;
    CHECK(read(fd, &t, sizeof(t)) == sizeof(t), "the user ended");
    return t;
}

static void stop_user(pid_t pid, int go[2]) {
    int status;
    CHECK(write(go[1], "", 1) == 1, "the user ended");
    close(go[1]);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the user ended with %d", status);
}

static void one_user_never_has_the_last_part_of_a_total(void) {
    int tell[2], go[2], tell2[2], go2[2];
    if (geteuid() != 0)
        skip("only root can be several users");
    struct tdaemon *d = start("");
    json_t *before = tdaemon_objects(d);
    pid_t greedy = start_user(GREEDY, tdaemon_dir(d), ASKS, tell, go);
    struct told t = hear(tell[0]);
    printf("  greedy: %u sessions, %u MiB; %s; %s\n", t.sessions, t.mib, t.no_session, t.no_bytes);
    CHECK(t.sessions == SESSIONS - SESSIONS / 8, "%u sessions", t.sessions);
    CHECK(t.mib == POOL_BYTES / MIB / 8 * 7, "%u MiB", t.mib);
    CHECK(strstr(t.no_session, "of 160 sessions others have 0 and uid 65528 may have 140 so that "
                               "some are left; it has 140 and asked for 1 more; give some back or "
                               "raise limits.sessions"),
          "%s", t.no_session);
    CHECK(strstr(t.no_bytes, "limits.pool_bytes") && strstr(t.no_bytes, "so that some are left"),
          "%s", t.no_bytes);
    CHECK(tdaemon_used(d, "sessions") == t.sessions, "%lu are counted",
          (unsigned long)tdaemon_used(d, "sessions"));
    /* Another gets half of what is left, and there is some left for a third. */
    pid_t other = start_user(OTHER, tdaemon_dir(d), ASKS, tell2, go2);
    struct told u = hear(tell2[0]);
    printf("  other: %u sessions, %u MiB; %s\n", u.sessions, u.mib, u.no_session);
    CHECK(u.sessions == SESSIONS / 16, "%u sessions", u.sessions);
    CHECK(u.mib == POOL_BYTES / MIB / 16, "%u MiB", u.mib);
    close(raw_session(tdaemon_dir(d)));
    stop_user(greedy, go);
    stop_user(other, go2);
    tdaemon_expect_objects(d, before);
    tdaemon_stop(d);
}

static void a_hundred_sessions_stay_below_the_limits_that_were_set_for_their_user(void) {
    int tell[2], go[2], tell2[2], go2[2];
    if (geteuid() != 0)
        skip("only root can be several users");
    struct tdaemon *d =
        start(", \"policy\": {\"users\": [{\"match\": {\"uid\": 65528}, \"limits\": "
              "{\"sessions_per_uid\": 100, \"pool_bytes_per_uid\": 8388608}}]}");
    json_t *before = tdaemon_objects(d);
    pid_t greedy = start_user(GREEDY, tdaemon_dir(d), ASKS, tell, go);
    struct told t = hear(tell[0]);
    printf("  greedy: %u sessions, %u MiB; %s; %s\n", t.sessions, t.mib, t.no_session, t.no_bytes);
    CHECK(t.sessions == 100 && t.mib == 8, "%u sessions, %u MiB", t.sessions, t.mib);
    CHECK(strstr(t.no_session, "uid 65528 may have 100 sessions, has 100 and asked for 1 more"),
          "%s", t.no_session);
    CHECK(strstr(t.no_bytes, "uid 65528 may have 8388608 bytes"), "%s", t.no_bytes);
    pid_t other = start_user(OTHER, tdaemon_dir(d), 40, tell2, go2);
    struct told u = hear(tell2[0]);
    CHECK(u.sessions == 40, "the other has %u of 40 sessions: %s", u.sessions, u.no_session);
    CHECK(u.mib == (POOL_BYTES / MIB - 8) - 8, "the other has %u MiB", u.mib);
    stop_user(greedy, go);
    stop_user(other, go2);
    tdaemon_expect_objects(d, before);
    tdaemon_stop(d);
}

/* Returns how many requests of somebody else were answered while one user was held to its rate. */
static unsigned answered_meanwhile(struct tdaemon *d) {
    struct rdmad_names_list_req req = {0};
    struct raw_packet reply;
    pid_t pid = fork();
    if (!pid) {
        become(GREEDY);
        uint64_t from = now_ms();
        int a = raw_session(tdaemon_dir(d)), b = raw_session(tdaemon_dir(d));
        for (unsigned i = 0; i < 298; i++)
            CHECK(raw_request(i % 2 ? a : b, RDMAD_MSG_NAMES_LIST, &req, sizeof(req), &reply) == 0,
                  "%s", raw_text(&reply));
        /* A second's at once, then two seconds for the rest. */
        uint64_t took = now_ms() - from;
        printf("  300 requests at 100 a second took %u ms\n", (unsigned)took);
        _exit(took < 1900);
    }
    int sock = raw_session(tdaemon_dir(d)), status;
    unsigned n = 0;
    while (!waitpid(pid, &status, WNOHANG)) {
        CHECK(raw_request(sock, RDMAD_MSG_NAMES_LIST, &req, sizeof(req), &reply) == 0, "%s",
              raw_text(&reply));
        n++;
        sleep_ms(1);
    }
    CHECK(status == 0, "a user was not held to its rate, or refused");
    close(sock);
    return n;
}

/* A user that asks faster than it may waits, and the others do not. On a busy machine somebody else
 * may not have the processor for so long: then it is tried again. */
static void requests_have_a_rate_by_user(void) {
    enum { TRIES = 5 };
    unsigned n, tries = 1;
    if (geteuid() != 0)
        skip("only root can be several users");
    struct tdaemon *d = start(", \"policy\": {\"users\": [{\"match\": {\"uid\": 65528}, "
                              "\"limits\": {\"calls_per_second_per_uid\": 100}}]}");
    while ((n = answered_meanwhile(d)) <= 100) {
        CHECK(tries++ < TRIES, "only %u requests of somebody else were answered meanwhile", n);
        sleep_ms(1000); /* until the user may ask as much at once as at first */
    }
    CHECK(tdaemon_logged(d, "uid 65528 makes more than 100 requests a second"), "nobody said so");
    tdaemon_stop(d);
}

/* So many come at once, and one at least is told why it is turned away; which of them is a matter
 * of milliseconds. All are closed. False when nobody hears anything. */
static bool some_are_turned_away(const char *dir, unsigned count) {
    struct pollfd fd[COME_AT_ONCE];
    unsigned told = 0;
    CHECK(count <= COME_AT_ONCE, "%u", count);
    for (unsigned i = 0; i < count; i++)
        fd[i] = (struct pollfd){.fd = raw_connect(dir), .events = POLLIN};
    int ready = poll(fd, count, (int)TEST_PATIENCE_MS);
    CHECK(ready >= 0, "poll");
    if (ready == 0)
        return false;
    while (told < count && !(fd[told].revents & POLLIN))
        told++;
    CHECK(told < count, "who is turned away hears nothing");
    raw_expect_told_away(fd[told].fd, RDMAD_E_LIMIT, "far more requests a second");
    for (unsigned i = 0; i < count; i++)
        close(fd[i].fd);
    return true;
}

/* Whether it did that. */
static bool as_greedy(bool (*act)(const char *dir), const char *dir) {
    enum { DONE, NOT_DONE = 100 };
    int status;
    pid_t pid = fork();
    if (!pid) {
        become(GREEDY);
        bool done = act(dir);
        fflush(stdout);
        _exit(done ? DONE : NOT_DONE);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "a user has died");
    CHECK(WEXITSTATUS(status) == DONE || WEXITSTATUS(status) == NOT_DONE, "see above");
    return WEXITSTATUS(status) == DONE;
}

static bool come_one_after_the_other(const char *dir) {
    enum { COME = 15 };
    uint64_t from = now_ms();
    for (unsigned i = 0; i < COME; i++)
        close(raw_session(dir)); /* two requests each, ten of them at once */
    uint64_t took = now_ms() - from;
    printf("  %u sessions one after the other took %u ms\n", COME, (unsigned)took);
    return took > 1500;
}

static bool come_at_once(const char *dir) {
    return some_are_turned_away(dir, COME_AT_ONCE);
}

/* Fewer than who owes nothing may be. */
static bool come_again(const char *dir) {
    return some_are_turned_away(dir, 40);
}

/* Coming is a request, too, and who goes takes along what it owes. At ten a second fifty that come
 * at once are as far ahead as one may be. On a busy machine that may be over when they come again:
 * then it is tried again. */
static void who_comes_and_goes_has_the_same_rate(void) {
    enum { TRIES = 5 };
    unsigned tries = 0;
    if (geteuid() != 0)
        skip("only root can be several users");
    struct tdaemon *d = start(", \"policy\": {\"users\": [{\"match\": {\"uid\": 65528}, "
                              "\"limits\": {\"calls_per_second_per_uid\": 10}}]}");
    json_t *before = tdaemon_objects(d);
    CHECK(as_greedy(come_one_after_the_other, tdaemon_dir(d)), "a user was not held to its rate");
    do {
        CHECK(tries++ < TRIES, "who has gone owes nothing");
        CHECK(as_greedy(come_at_once, tdaemon_dir(d)), "who is turned away hears nothing");
        tdaemon_expect_objects(d, json_incref(before)); /* all have gone */
    } while (!as_greedy(come_again, tdaemon_dir(d)));
    json_decref(before);
    close(raw_session(tdaemon_dir(d)));
    tdaemon_stop(d);
}

TEST_MAIN(CASE(one_user_never_has_the_last_part_of_a_total),
          CASE(a_hundred_sessions_stay_below_the_limits_that_were_set_for_their_user),
          CASE(requests_have_a_rate_by_user), CASE(who_comes_and_goes_has_the_same_rate))
