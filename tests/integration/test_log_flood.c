/* SPDX-License-Identifier: MIT */
/*
 * test_log_flood.c - what anybody can make the daemon say, as often as he likes: of each such thing
 * ten lines a second of him are written, and how many were not; nobody's flood hides what another
 * does.
 */
#include "tests/integration/false_peer.h"
#include "tests/support/client.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { A_SECOND = 10, AT_LEAST = 200 };

static unsigned lines_with(const struct tdaemon *d, const char *words, const char *also) {
    char path[PATH_MAX], line[2048];
    unsigned n = 0;
    snprintf(path, sizeof(path), "%s/log", tdaemon_dir(d));
    FILE *f = fopen(path, "re");
    CHECK(f, "%s cannot be read", path);
    while (fgets(line, sizeof(line), f))
        n += strstr(line, words) && strstr(line, also);
    fclose(f);
    return n;
}

/* Has it said until that is twice what may be written meanwhile, then once more. words: of each
 * line, of which there are so many kinds. */
static void flood(const struct tdaemon *d, void (*say)(void *), void *arg, const char *words,
                  unsigned kinds) {
    uint64_t since = now_ms();
    unsigned said = 0, may = 0;
    for (; said < AT_LEAST || said < 2 * may; said++) {
        CHECK(now_ms() - since < 3 * TEST_PATIENCE_MS, "too slow for a flood: %u said", said);
        say(arg);
        may = A_SECOND * ((unsigned)((now_ms() - since) / 1000) + 2);
    }
    sleep_ms(1100);
    say(arg);
    for (unsigned tries = 0; !lines_with(d, words, "more like it were not shown"); tries++) {
        CHECK(tries < TEST_PATIENCE_MS / 50, "what is dropped is not counted");
        sleep_ms(50);
    }
    unsigned seen = lines_with(d, words, "");
    may = kinds * A_SECOND * ((unsigned)((now_ms() - since) / 1000) + 1);
    printf("  \"%s\": said %u times, %u lines, at most %u\n", words, said + 1, seen, may);
    CHECK(seen <= may, "%u lines of %u that were caused, at most %u in this time", seen, said + 1,
          may);
}

static void come_and_go(void *arg) {
    struct false_peer p;
    if (false_peer_try(&p, tdaemon_listen(arg), test_fabric()))
        false_peer_close(&p);
}

static void who_says_hello_without_pause_does_not_fill_the_log(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    flood(d, come_and_go, d, "is up, accepted", 1);
    tdaemon_stop(d);
}

struct own_session {
    struct tdaemon *daemon;
    uint64_t id;
    bool paused;
};

static void pause_or_resume(void *arg) {
    struct own_session *s = arg;
    const char *method = s->paused ? "session.resume" : "session.pause";
    json_decref(tdaemon_call(s->daemon, method, json_pack("{s:I}", "id", (json_int_t)s->id)));
    s->paused = !s->paused;
}

static void who_pauses_his_session_without_pause_does_not_fill_the_log(void) {
    struct rdmad_session_info info = RDMAD_SESSION_INFO_INIT;
    struct own_session own = {.daemon = tdaemon_start("127.0.0.1", NULL)};
    rdmad_session *s = client_open(own.daemon);
    rdmad_session_get_info(s, &info);
    own.id = info.id;
    flood(own.daemon, pause_or_resume, &own, "d the session", 1);
    rdmad_close(s);
    tdaemon_stop(own.daemon);
}

static void open_and_close(void *arg) {
    rdmad_close(client_open(arg));
}

static void sessions_that_come_and_go_do_not_fill_the_log_of_who_debugs(void) {
    const char *const args[] = {"--log-level", "debug", NULL};
    struct tdaemon *d = tdaemon_start("127.0.0.1", args);
    flood(d, open_and_close, d, "debug: session ", 4); /* name, hang-up, end, gone */
    tdaemon_stop(d);
}

/* ---- two users ------------------------------------------------------------------------------ */

/* What one user does, without pause, while another does the same now and then. */
struct flooding {
    struct tdaemon *daemon;
    pthread_t thread;
    unsigned said;
    bool stop;
};

static void *flood_on(void *arg) {
    struct flooding *f = arg;
    while (!__atomic_load_n(&f->stop, __ATOMIC_RELAXED)) {
        open_and_close(f->daemon);
        __atomic_add_fetch(&f->said, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* So many times more. */
static void flood_goes_on(const struct flooding *f, unsigned times) {
    uint64_t limit = now_ms() + TEST_PATIENCE_MS;
    for (unsigned from = f->said; __atomic_load_n(&f->said, __ATOMIC_RELAXED) - from < times;) {
        CHECK(now_ms() < limit, "too slow for a flood: %u said", f->said);
        sleep_ms(1);
    }
}

/* The same uid by a tenant's socket, which is another user. */
static rdmad_session *session_of_blue(const struct tdaemon *d, const char *name) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    char dir[PATH_MAX];
    rdmad_session *s;
    snprintf(dir, sizeof(dir), "%s/tenants/blue", tdaemon_dir(d));
    o.runtime_dir = dir;
    o.name = name;
    CHECK(rdmad_open(&o, &s) == 0, "%s", rdmad_last_error(NULL));
    return s;
}

static void line_comes(const struct tdaemon *d, const char *words) {
    uint64_t limit = now_ms() + TEST_PATIENCE_MS;
    while (!lines_with(d, words, "debug: session ")) {
        CHECK(now_ms() < limit, "\"%s\" does not come, another user's flood hides it", words);
        sleep_ms(20);
    }
}

static struct tdaemon *start_with_tenant(char config[32]) {
    static const char text[] = "{\"sockets\": [{\"tenant\": \"blue\"}]}";
    strcpy(config, "/tmp/rdmad-flood-XXXXXX");
    int file = mkstemp(config);
    CHECK(file >= 0 && write(file, text, sizeof(text) - 1) > 0 && !close(file), "%s",
          strerror(errno));
    return tdaemon_start("127.0.0.1",
                         (const char *[]){"--log-level", "debug", "--config", config, NULL});
}

static void a_users_flood_hides_no_line_of_another_user(void) {
    char config[32], name[32], words[48];
    struct flooding f = {.daemon = start_with_tenant(config)};
    CHECK(pthread_create(&f.thread, NULL, flood_on, &f) == 0, "thread");
    for (unsigned i = 0; i < 6; i++) {
        flood_goes_on(&f, 100);
        snprintf(name, sizeof(name), "quiet-%u", i);
        snprintf(words, sizeof(words), " is %s", name);
        rdmad_close(session_of_blue(f.daemon, name));
        line_comes(f.daemon, words);
    }
    line_comes(f.daemon, "more like it were not shown"); /* it was a flood */
    __atomic_store_n(&f.stop, true, __ATOMIC_RELAXED);
    pthread_join(f.thread, NULL);
    tdaemon_stop(f.daemon);
    unlink(config);
}

TEST_MAIN(CASE(who_says_hello_without_pause_does_not_fill_the_log),
          CASE(who_pauses_his_session_without_pause_does_not_fill_the_log),
          CASE(sessions_that_come_and_go_do_not_fill_the_log_of_who_debugs),
          CASE(a_users_flood_hides_no_line_of_another_user))
