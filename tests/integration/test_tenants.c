/* SPDX-License-Identifier: MIT */
/*
 * test_tenants.c - one uid by the sockets of several tenants, as in containers: each is a user of
 * its own, with limits, a weight and a rate of its own, also after its daemon was started anew with
 * other sockets. What is for all holds for all of them together.
 */
#include "tests/support/cargo.h"
#include "tests/support/harness.h"
#include "tests/support/procs.h"
#include "tests/support/rawclient.h"

#include <errno.h>
#include <fcntl.h>
#include <rdmad/rdmad.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

/* ---- a daemon with tenants ------------------------------------------------------------------- */

static char config[64], own_dir[64]; /* that of a tenant whose socket has a path of its own */

static void write_config(const char *text) {
    FILE *f = fopen(config, "we");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s: %s", config, strerror(errno));
}

static struct tdaemon *start(const char *text) {
    strcpy(config, "/tmp/rdmad-tenants-XXXXXX");
    strcpy(own_dir, "/tmp/rdmad-tenant-XXXXXX");
    int file = mkstemp(config);
    CHECK(file >= 0 && !close(file) && mkdtemp(own_dir), "%s", strerror(errno));
    write_config(text);
    return tdaemon_start("127.0.0.1", (const char *[]){"--config", config, NULL});
}

static void stop(struct tdaemon *d) {
    tdaemon_stop(d);
    unlink(config);
    rmdir(own_dir);
}

/* Where the socket of that tenant is; "": the daemon's own. */
static const char *dir_of(struct tdaemon *d, const char *tenant, char path[128]) {
    snprintf(path, 128, *tenant ? "%s/tenants/%s" : "%s", tdaemon_dir(d), tenant);
    return path;
}

static rdmad_session *session_at(const char *dir, const char *name) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    o.runtime_dir = dir;
    o.name = name;
    CHECK(rdmad_open(&o, &s) == 0, "%s", rdmad_last_error(NULL));
    return s;
}

static rdmad_session *session_of(struct tdaemon *d, const char *tenant) {
    char path[128];
    return session_at(dir_of(d, tenant, path), *tenant ? tenant : "none");
}

/* The row of the list in which key is text. */
static json_t *row_of(struct tdaemon *d, const char *method, json_t *params, const char *list,
                      const char *key, const char *text) {
    json_t *reply = tdaemon_call(d, method, params), *row, *found = NULL;
    size_t i;
    json_array_foreach(json_object_get(reply, list), i, row) {
        const char *value = json_string_value(json_object_get(row, key));
        if (value && !strcmp(value, text))
            found = json_incref(row);
    }
    CHECK(found, "no row of %s has %s %s", method, key, text);
    json_decref(reply);
    return found;
}

static json_t *session_row(struct tdaemon *d, const char *name) {
    return row_of(d, "session.show", NULL, "sessions", "name", name);
}

static double number_of(struct tdaemon *d, const char *name, const char *key) {
    json_t *row = session_row(d, name);
    double n = json_number_value(json_object_get(row, key));
    json_decref(row);
    return n;
}

static void expect_tenant(struct tdaemon *d, const char *name, const char *tenant) {
    json_t *row = session_row(d, name), *value = json_object_get(row, "tenant");
    bool so = tenant ? json_is_string(value) && !strcmp(json_string_value(value), tenant)
                     : json_is_null(value);
    CHECK(so, "%s is shown as of tenant %s", name,
          json_is_string(value) ? json_string_value(value) : "nobody");
    json_decref(row);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* How many of count sessions are let in; they stay open. why: the first that was not. */
static unsigned open_many(const char *dir, unsigned count, int *socks, char *why) {
    struct {
        struct rdmad_msg_header header;
        struct rdmad_hello_req body;
    } message = {.body.name = "many"};
    unsigned n = 0;
    *why = '\0';
    for (unsigned i = 0; i < count; i++) {
        int sock = raw_connect(dir);
        struct raw_packet said;
        raw_header(&message.header, RDMAD_MSG_HELLO, sizeof(message.body));
        (void)raw_send(sock, &message, sizeof(message), NULL, 0);
        CHECK(raw_recv(sock, &said, (int)TEST_PATIENCE_MS), "no answer to a HELLO");
        if (said.size && said.header.type == (RDMAD_MSG_HELLO | RDMAD_MSG_REPLY)) {
            socks[n++] = sock;
            continue;
        }
        if (said.size && !*why)
            snprintf(why, RDMAD_TEXT_MAX + 1, "%s", raw_text(&said));
        close(sock);
    }
    return n;
}

static void close_many(const int *socks, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        close(socks[i]);
}

/* How many MiB of so many it gets. */
static unsigned take_mib(int sock, unsigned asks) {
    struct rdmad_pool_create_req req = {.bytes = MIB};
    struct raw_packet reply;
    unsigned got = 0;
    for (unsigned i = 0; i < asks; i++) {
        got += raw_request(sock, RDMAD_MSG_POOL_CREATE, &req, sizeof(req), &reply) == 0;
        raw_drop(&reply);
    }
    return got;
}

/* Whether an event tells that a client of the tenant was refused. */
static bool refused_one_of(struct tdaemon *d, const char *tenant) {
    json_t *reply = tdaemon_call(d, "events", NULL), *event;
    bool told = false;
    size_t i;
    json_array_foreach(json_object_get(reply, "events"), i, event) {
        const char *of = json_string_value(json_object_get(event, "tenant"));
        const char *what = json_string_value(json_object_get(event, "what"));
        told |= of && !strcmp(of, tenant) && !strcmp(what, "refused");
    }
    json_decref(reply);
    return told;
}

static void limits_of_one_tenant_do_not_stop_another(void) {
    struct tdaemon *d =
        start("{\"sockets\": [{\"tenant\": \"blue\"}, {\"tenant\": \"red\"}],\n"
              "\"policy\": {\"users\": [{\"match\": {\"socket\": \"blue\"}, \"limits\":\n"
              "{\"sessions_per_uid\": 3, \"pool_bytes_per_uid\": 2097152}}]}}");
    json_t *before = tdaemon_objects(d);
    char path[128], why[RDMAD_TEXT_MAX + 1];
    int blue[8], red[8], none[8];
    CHECK(open_many(dir_of(d, "blue", path), 8, blue, why) == 3, "blue has not 3 sessions");
    CHECK(strstr(why, "may have 3 sessions, has 3"), "%s", why);
    CHECK(refused_one_of(d, "blue") && !refused_one_of(d, "red"),
          "whose session was refused is not told");
    CHECK(open_many(dir_of(d, "red", path), 8, red, why) == 8, "red: %s", why);
    CHECK(open_many(dir_of(d, "", path), 8, none, why) == 8, "who is no tenant: %s", why);
    CHECK(take_mib(blue[0], 5) == 2, "blue has not 2 MiB");
    CHECK(take_mib(red[0], 5) == 5, "red is held to blue's limit");
    CHECK(take_mib(none[0], 5) == 5, "who is no tenant is held to blue's limit");
    CHECK(take_mib(blue[1], 5) == 0, "blue has more than 2 MiB");
    close_many(blue, 3);
    close_many(red, 8);
    close_many(none, 8);
    tdaemon_expect_objects(d, before);
    stop(d);
}

/* Of what all may have, the last part is for others, whatever the uids; nothing is dodged. */
static void what_is_for_all_holds_for_all_sockets_of_a_uid(void) {
    struct tdaemon *d = start("{\"sockets\": [{\"tenant\": \"blue\"}, {\"tenant\": \"red\"}],\n"
                              "\"limits\": {\"sessions\": 32, \"sessions_per_uid\": 32}}");
    json_t *before = tdaemon_objects(d);
    char path[128], why[RDMAD_TEXT_MAX + 1];
    int blue[40], red[40], none[40];
    unsigned of_blue = open_many(dir_of(d, "blue", path), 40, blue, why);
    CHECK(strstr(why, "so that some are left"), "%s", why);
    unsigned of_red = open_many(dir_of(d, "red", path), 40, red, why);
    unsigned of_none = open_many(dir_of(d, "", path), 40, none, why);
    CHECK(of_blue == 28 && of_red == 2 && of_none == 1, "%u, %u and %u sessions", of_blue, of_red,
          of_none);
    close_many(blue, of_blue);
    close_many(red, of_red);
    close_many(none, of_none);
    tdaemon_expect_objects(d, before);
    stop(d);
}

/* ---- what takes as long as a client likes ---------------------------------------------------- */

enum { LINGER_S = 30 };

/* A packet that brings a descriptor, of which none is left here. */
static void bring(int sock, int fd) {
    struct {
        struct rdmad_msg_header header;
        struct rdmad_pool_import_req body;
    } m = {.body = {.bytes = MIB}};
    raw_header(&m.header, RDMAD_MSG_POOL_IMPORT, sizeof(m.body));
    int rc = raw_send(sock, &m, sizeof(m), &fd, 1);
    CHECK(rc == 0, "send: %s", strerror(-rc));
    close(fd);
}

static void who_waits_for_its_own_descriptor_keeps_no_other_tenant_waiting(void) {
    struct tdaemon *d = start("{\"sockets\": [{\"tenant\": \"blue\"}, {\"tenant\": \"red\"}]}");
    char path[128];
    int blue = raw_session(dir_of(d, "blue", path)), red = raw_session(dir_of(d, "red", path));
    struct raw_packet reply;
    uint64_t before = now_ms();
    process_stop(tdaemon_pid(d)); /* so that what is on its way is the last reference, not ours */
    bring(blue, cargo_inside(cargo_lingering(LINGER_S)));
    process_go_on(tdaemon_pid(d));
    sleep_ms(50); /* its worker has it */
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, MIB) == 0 &&
              fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0,
          "memfd: %s", strerror(errno));
    bring(red, fd);
    CHECK(raw_recv(red, &reply, LINGER_S * 1000) && reply.size, "no answer to an import");
    CHECK(reply.header.status == 0, "import: %s", raw_text(&reply));
    CHECK(now_ms() - before < LINGER_S * 1000, "it waited for blue's descriptor");
    close(red);
    close(blue);
    stop(d);
}

/* ---- weights and rates ----------------------------------------------------------------------- */

struct mover {
    rdmad_session *s;
    rdmad_lease *own, *lease;
    char *mine;
};

/* A session that can write to a lease of its own. */
static struct mover mover_of(struct tdaemon *d, const char *tenant) {
    struct mover m = {.s = session_of(d, tenant)};
    rdmad_pool *pool;
    CHECK(rdmad_pool_create(m.s, MIB, 0, &pool) == 0, "%s", rdmad_last_error(m.s));
    m.mine = rdmad_alloc(pool, 4096);
    CHECK(m.mine && rdmad_lease_grant(m.s, m.mine, 4096, NULL, &m.own) == 0 &&
              rdmad_lease_attach(m.s, rdmad_lease_uri(m.own), 0, &m.lease) == 0,
          "%s", rdmad_last_error(m.s));
    return m;
}

static void move(struct mover *m, unsigned ops) {
    for (unsigned i = 0; i < ops; i++)
        CHECK(rdmad_write(m->lease, 0, m->mine + 2048, 64) == 0, "%s", rdmad_last_error(m->s));
}

static void expect_share(struct tdaemon *d, const char *name, double weight, double rate) {
    double w = number_of(d, name, "weight"), r = number_of(d, name, "ops_per_second");
    CHECK(w == weight && r == rate, "%s has weight %.0f and %.0f ops a second", name, w, r);
}

static void set_limit(struct tdaemon *d, const char *tenant, const char *set) {
    char who[64];
    snprintf(who, sizeof(who), "uid:%u%s%s", (unsigned)geteuid(), *tenant ? "@" : "", tenant);
    json_decref(tdaemon_call(d, "limit.set", json_pack("{s:s, s:s}", "who", who, "set", set)));
}

static void weights_and_rates_are_each_tenants_own(void) {
    struct tdaemon *d =
        start("{\"sockets\": [{\"tenant\": \"blue\"}, {\"tenant\": \"red\"}], \"policy\":\n"
              "{\"users\": [{\"match\": {\"socket\": \"blue\"}, \"weight\": 10, "
              "\"ops_per_second\": 300},\n"
              "{\"match\": {\"socket\": \"red\"}, \"weight\": 1000}]}}");
    struct mover none = mover_of(d, ""), red = mover_of(d, "red"), blue = mover_of(d, "blue");
    expect_tenant(d, "blue", "blue");
    expect_tenant(d, "red", "red");
    expect_tenant(d, "none", NULL);
    expect_share(d, "blue", 10, 300);
    expect_share(d, "red", 1000, 0);
    expect_share(d, "none", 100, 0);
    move(&blue, 200);
    move(&red, 2000);
    move(&none, 2000);
    CHECK(number_of(d, "blue", "throttled_s") > 0, "blue's rate did not hold it back");
    CHECK(number_of(d, "red", "throttled_s") == 0, "blue's rate held red back");
    CHECK(number_of(d, "none", "throttled_s") == 0, "blue's rate held back who is no tenant");

    /* While they are at work: of one tenant, then of the uid by all sockets. */
    set_limit(d, "red", "weight=7");
    set_limit(d, "", "weight=9 ops_per_second=100000000");
    expect_share(d, "red", 7, 100000000);
    expect_share(d, "blue", 9, 100000000);
    expect_share(d, "none", 9, 100000000);
    rdmad_close(blue.s);
    rdmad_close(red.s);
    rdmad_close(none.s);
    stop(d);
}

/* ---- what operators see ---------------------------------------------------------------------- */

static double used_of(struct tdaemon *d, const char *tenant) {
    char who[64];
    snprintf(who, sizeof(who), "uid:%u%s%s", (unsigned)geteuid(), *tenant ? "@" : "", tenant);
    json_t *reply = tdaemon_call(d, "limit.show", NULL), *row;
    double used = -1;
    size_t i;
    json_array_foreach(json_object_get(reply, "limits"), i, row) {
        if (!strcmp(json_string_value(json_object_get(row, "who")), who) &&
            !strcmp(json_string_value(json_object_get(row, "key")), "sessions_per_uid"))
            used = json_number_value(json_object_get(row, "used"));
    }
    json_decref(reply);
    return used;
}

/* Also of sessions that have ended. */
static void expect_ops(struct tdaemon *d, const char *tenant, unsigned ops) {
    char line[160];
    bool told = false;
    snprintf(line, sizeof(line), "rdmad_user_ops_total{uid=\"%u\",tenant=\"%s\"} %u\n",
             (unsigned)geteuid(), tenant, ops);
    for (uint64_t until = now_ms() + TEST_PATIENCE_MS; !told && now_ms() < until; sleep_ms(5)) {
        json_t *reply = tdaemon_call(d, "metrics", json_pack("{s:s}", "format", "prometheus"));
        const char *text = json_string_value(json_object_get(reply, "text"));
        told = text && strstr(text, line);
        json_decref(reply);
    }
    CHECK(told, "the metrics have no %s", line);
}

static void each_tenant_is_shown_by_its_name(void) {
    struct tdaemon *d = start("{\"sockets\": [{\"tenant\": \"blue\"}, {\"tenant\": \"red\"}]}");
    struct mover blue = mover_of(d, "blue"), red = mover_of(d, "red"), also = mover_of(d, "red");
    move(&blue, 1);
    move(&red, 2);
    move(&also, 3);
    CHECK(used_of(d, "blue") == 1 && used_of(d, "red") == 2 && used_of(d, "") == -1,
          "limit show tells of %.0f and %.0f sessions", used_of(d, "blue"), used_of(d, "red"));
    rdmad_close(also.s);
    expect_ops(d, "red", 5);
    expect_ops(d, "blue", 1);
    json_t *reply = tdaemon_call(d, "events", NULL);
    json_t *event, *list = json_object_get(reply, "events");
    unsigned of_red = 0;
    size_t i;
    json_array_foreach(list, i, event) {
        const char *tenant = json_string_value(json_object_get(event, "tenant"));
        of_red += tenant && !strcmp(tenant, "red");
    }
    CHECK(of_red, "no event is red's");
    json_decref(reply);
    rdmad_close(blue.s);
    rdmad_close(red.s);
    stop(d);
}

/* ---- another life of the daemon -------------------------------------------------------------- */

static uint32_t next_end(rdmad_session *s, struct rdmad_event *e) {
    do
        CHECK(rdmad_next_event(s, (int)TEST_PATIENCE_MS, e) == 0, "%s", rdmad_last_error(s));
    while (e->type != RDMAD_EVENT_SESSION_RESUMED && e->type != RDMAD_EVENT_SESSION_LOST);
    return e->type;
}

/* It begins with other sockets, in another order, and one has another name. */
static void a_session_comes_back_to_the_account_of_the_same_tenant(void) {
    char text[1024];
    need_hole_guard();
    struct tdaemon *d = start("{}");
    tdaemon_end(d);
    static const char rules[] =
        "\"policy\": {\"users\": [{\"match\": {\"socket\": \"blue\"}, \"weight\": 11},\n"
        "{\"match\": {\"socket\": \"red\"}, \"weight\": 22}]}}";
    snprintf(text, sizeof(text),
             "{\"sockets\": [{\"tenant\": \"blue\"}, {\"tenant\": \"red\"},\n"
             "{\"tenant\": \"lilac\", \"path\": \"%s/rdmad.sock\"}], %s",
             own_dir, rules);
    write_config(text);
    tdaemon_restart(d);
    struct mover blue = mover_of(d, "blue"), red = mover_of(d, "red");
    rdmad_session *renamed = session_at(own_dir, "renamed");
    tdaemon_kill(d);
    snprintf(text, sizeof(text),
             "{\"sockets\": [{\"tenant\": \"red\"}, {\"tenant\": \"green\"},\n"
             "{\"tenant\": \"azure\", \"path\": \"%s/rdmad.sock\"}, {\"tenant\": \"blue\"}], %s",
             own_dir, rules);
    write_config(text);
    tdaemon_restart(d);

    struct rdmad_event e = RDMAD_EVENT_INIT;
    CHECK(next_end(blue.s, &e) == RDMAD_EVENT_SESSION_RESUMED, "blue is lost: %s", e.text);
    CHECK(next_end(red.s, &e) == RDMAD_EVENT_SESSION_RESUMED, "red is lost: %s", e.text);
    CHECK(next_end(renamed, &e) == RDMAD_EVENT_SESSION_LOST, "it is another tenant's now");
    expect_tenant(d, "blue", "blue");
    expect_tenant(d, "red", "red");
    expect_share(d, "blue", 11, 0);
    expect_share(d, "red", 22, 0);
    CHECK(used_of(d, "blue") == 1 && used_of(d, "red") == 1, "they are on other accounts");
    move(&blue, 10);
    move(&red, 10);
    rdmad_close(renamed);
    rdmad_close(blue.s);
    rdmad_close(red.s);
    stop(d);
}

/* Until the next start the sockets stay, and whose they are; the rules hold at once. */
static void settings_that_are_read_again_leave_tenants_as_they_are(void) {
    struct tdaemon *d = start("{\"sockets\": [{\"tenant\": \"blue\"}, {\"tenant\": \"red\"}]}");
    struct mover blue = mover_of(d, "blue"), red = mover_of(d, "red");
    write_config("{\"sockets\": [{\"tenant\": \"red\"}], \"policy\": {\"users\":\n"
                 "[{\"match\": {\"socket\": \"blue\"}, \"weight\": 11},\n"
                 "{\"match\": {\"socket\": \"red\"}, \"weight\": 22}]}}");
    json_t *reply = tdaemon_call(d, "reload", NULL);
    json_decref(reply);
    expect_share(d, "blue", 11, 0);
    expect_share(d, "red", 22, 0);
    set_limit(d, "blue", "weight=5");
    expect_share(d, "blue", 5, 0);
    expect_share(d, "red", 22, 0);
    CHECK(used_of(d, "blue") == 1 && used_of(d, "red") == 1, "they are on other accounts");
    rdmad_close(blue.s);
    rdmad_close(red.s);
    stop(d);
}

/* ---- who may come ---------------------------------------------------------------------------- */

static void open_as_another_user(void *arg) {
    CHECK(setgid(4711) == 0 && setuid(4711) == 0, "%s", strerror(errno));
    rdmad_close(session_of(arg, "red"));
}

/* That of the packaged service lets nobody into what it makes. */
static void a_tenants_users_come_by_whatever_the_daemons_umask(void) {
    if (geteuid() != 0)
        skip("only root may become another user");
    mode_t before = umask(0077);
    struct tdaemon *d = start("{\"sockets\": [{\"tenant\": \"red\", \"mode\": \"0666\"}]}");
    umask(before);
    client_expect_ok(client_fork(open_as_another_user, d));
    stop(d);
}

TEST_MAIN(CASE(limits_of_one_tenant_do_not_stop_another),
          CASE(what_is_for_all_holds_for_all_sockets_of_a_uid),
          CASE(who_waits_for_its_own_descriptor_keeps_no_other_tenant_waiting),
          CASE(weights_and_rates_are_each_tenants_own), CASE(each_tenant_is_shown_by_its_name),
          CASE(a_session_comes_back_to_the_account_of_the_same_tenant),
          CASE(settings_that_are_read_again_leave_tenants_as_they_are),
          CASE(a_tenants_users_come_by_whatever_the_daemons_umask))
