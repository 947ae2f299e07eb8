/* SPDX-License-Identifier: MIT */
/*
 * test_names.c - what is published is listed and watched, on one daemon and from another; and a
 * program's own memory becomes a pool, if it is what it says.
 */
#include "tests/support/client.h"

#include <fcntl.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 64 << 10 };
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

struct two {
    struct tdaemon *a, *b; /* the same on route local */
    rdmad_session *owner, *asker;
    rdmad_pool *pool;
    char where[64]; /* a's names, from the asker */
};

static void each_way(void (*promise)(struct two *t)) {
    for (int link = 0; link < 2; link++) {
        struct two t = {.a = tdaemon_start("127.0.0.1", NULL)};
        t.b = link ? tdaemon_start("127.0.0.2", NULL) : t.a;
        t.owner = client_with_pool(t.a, BYTES, &t.pool);
        t.asker = client_open(t.b);
        snprintf(t.where, sizeof(t.where), "rdmad://%s/", tdaemon_listen(t.a));
        promise(&t);
        rdmad_close(t.asker);
        rdmad_close(t.owner);
        if (t.b != t.a)
            tdaemon_stop(t.b);
        tdaemon_stop(t.a);
    }
}

static rdmad_lease *published(struct two *t, const char *name, uint32_t scope, uint32_t uid) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *l;
    terms.name = name;
    terms.scope = scope;
    terms.scope_uid = uid;
    CHECK(!rdmad_lease_grant(t->owner, rdmad_pool_base(t->pool), 4096, &terms, &l), "%s: %s", name,
          rdmad_last_error(t->owner));
    return l;
}

/* ---- listing -------------------------------------------------------------------------------- */

#define MANY 50u

static void listed(struct two *t) {
    struct rdmad_name names[MANY + 10] = {RDMAD_NAME_INIT};
    rdmad_service *service;
    char name[32];
    size_t n;

    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "part-%02u", (i * 37) % MANY);
        published(t, name, RDMAD_SCOPE_ANY, 0);
    }
    published(t, "other", RDMAD_SCOPE_ANY, 0);
    published(t, "part-hidden", RDMAD_SCOPE_UID, (uint32_t)getuid() + 1);
    CHECK(!rdmad_listen(t->owner, "part-service", NULL, &service), "%s",
          rdmad_last_error(t->owner));
    client_refused(t->owner, rdmad_listen(t->owner, "other", NULL, &service), RDMAD_E_EXISTS,
                   "other");

    CHECK(!rdmad_names_list(t->asker, t->where, "part-", NULL, 0, names, MANY + 10, &n), "%s",
          rdmad_last_error(t->asker));
    CHECK(n == MANY + 1, "%zu of %u", n, MANY + 1);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "part-%02u", i);
        CHECK(!strcmp(names[i].name, name), "%s is at the place of %s", names[i].name, name);
        CHECK(names[i].kind == RDMAD_NAME_KIND_LEASE && names[i].length == 4096 &&
                  names[i].rights == RDMAD_RIGHTS_DEFAULT && names[i].ttl_ms,
              "what is told of it");
    }
    CHECK(!strcmp(names[MANY].name, "part-service") && names[MANY].kind == RDMAD_NAME_KIND_SERVICE,
          "%s", names[MANY].name);
    CHECK(!rdmad_names_list(t->asker, t->where, "part-", "part-47", 0, names, 2, &n) && n == 2,
          "%zu", n);
    CHECK(!strcmp(names[0].name, "part-48") && !strcmp(names[1].name, "part-49"), "a page");
    CHECK(!rdmad_names_list(t->asker, t->where, "none", NULL, 0, names, 2, &n) && n == 0, "%zu", n);
}

static void names_are_listed_in_order_for_who_may_see_them(void) {
    each_way(listed);
}

static void odd(struct two *t) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    struct rdmad_name name = RDMAD_NAME_INIT;
    uint64_t watch;
    rdmad_lease *l;
    size_t n;
    char *huge = calloc(1, 10241);
    rdmad_session *s = t->asker;

    memset(huge, 'x', 10240);
    client_refused(s, rdmad_names_list(s, t->where, huge, NULL, 0, &name, 1, &n), RDMAD_E_NAME,
                   "10240");
    client_refused(s, rdmad_names_list(s, t->where, NULL, huge, 0, &name, 1, &n), RDMAD_E_NAME,
                   "10240");
    client_refused(s, rdmad_names_list(s, huge, NULL, NULL, 0, &name, 1, &n), RDMAD_E_URI, "10240");
    client_refused(s, rdmad_names_watch(s, t->where, huge, 0, &watch), RDMAD_E_NAME, "10240");
    client_refused(s, rdmad_names_list(s, t->where, "a\x07", NULL, 0, &name, 1, &n), RDMAD_E_NAME,
                   "0x07");
    client_refused(s, rdmad_names_list(s, t->where, "\xff", NULL, 0, &name, 1, &n), RDMAD_E_NAME,
                   "0xff");
    client_refused(s, rdmad_names_watch(s, t->where, "a/b", 0, &watch), RDMAD_E_NAME, "0x2f");
    client_refused(s, rdmad_names_list(s, "http://h/", NULL, NULL, 0, &name, 1, &n), RDMAD_E_URI,
                   "rdmad://");
    client_refused(s, rdmad_names_list(s, "rdmad://h:1/x", NULL, NULL, 0, &name, 1, &n),
                   RDMAD_E_URI, "HOST:PORT");
    client_refused(s, rdmad_names_unwatch(s, 77), RDMAD_E_HANDLE, "77");
    terms.name = huge;
    client_refused(t->owner, rdmad_lease_grant(t->owner, rdmad_pool_base(t->pool), 8, &terms, &l),
                   RDMAD_E_NAME, "10240");
    terms.name = "tab\t";
    client_refused(t->owner, rdmad_lease_grant(t->owner, rdmad_pool_base(t->pool), 8, &terms, &l),
                   RDMAD_E_NAME, "cannot be published");
    free(huge);
    CHECK(!rdmad_names_list(s, t->where, NULL, NULL, 0, &name, 1, &n) && n == 0, "%zu", n);
}

static void odd_names_say_what_is_wrong(void) {
    each_way(odd);
}

/* ---- watching ------------------------------------------------------------------------------- */

static void expect_name(rdmad_session *s, uint64_t watch, bool there, const char *name) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    int rc = rdmad_next_event(s, (int)TEST_PATIENCE_MS, &e);
    CHECK(!rc, "waited for %s: %s", name, rdmad_errname(rc));
    CHECK(e.type == (there ? RDMAD_EVENT_NAME_THERE : RDMAD_EVENT_NAME_GONE) && !e.reason &&
              e.watch == watch && !strcmp(e.name.name, name),
          "event %u, %s, watch %llu: %s", e.type, e.name.name, (unsigned long long)e.watch, e.text);
}

static void watched(struct two *t) {
    rdmad_lease *first = published(t, "w-first", RDMAD_SCOPE_ANY, 0), *second;
    struct rdmad_event e = RDMAD_EVENT_INIT;
    uint64_t watch;

    published(t, "v-other", RDMAD_SCOPE_ANY, 0);
    CHECK(!rdmad_names_watch(t->asker, t->where, "w-", 0, &watch), "%s",
          rdmad_last_error(t->asker));
    expect_name(t->asker, watch, true, "w-first");
    second = published(t, "w-second", RDMAD_SCOPE_ANY, 0);
    expect_name(t->asker, watch, true, "w-second");
    published(t, "w-hidden", RDMAD_SCOPE_UID, (uint32_t)getuid() + 1);
    published(t, "v-third", RDMAD_SCOPE_ANY, 0);
    rdmad_lease_free(first);
    expect_name(t->asker, watch, false, "w-first");
    rdmad_lease_free(second);
    expect_name(t->asker, watch, false, "w-second");
    CHECK(!rdmad_names_unwatch(t->asker, watch), "%s", rdmad_last_error(t->asker));
    published(t, "w-late", RDMAD_SCOPE_ANY, 0);
    CHECK(rdmad_next_event(t->asker, 100, &e) == RDMAD_E_TIMEOUT, "event %u: %s", e.type, e.text);
}

static void a_watch_tells_what_is_there_and_what_comes_and_goes(void) {
    each_way(watched);
}

/* ---- of many ---- */

enum { EACH = 1000, OWNERS = 5, ALL = EACH * OWNERS };

/* What a watcher knows, by its events. */
struct known {
    bool there[ALL];
    unsigned anew, told;
};

static unsigned number_of(const struct rdmad_event *e) {
    unsigned n;
    CHECK(sscanf(e->name.name, "many-%u", &n) == 1 && n < ALL, "event %u: %s", e->type, e->text);
    return n;
}

/* Takes what comes, at most max events, until none came for a while. */
static void hear(rdmad_session *s, uint64_t watch, struct known *k, unsigned max) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    while (max-- && !rdmad_next_event(s, 300, &e)) {
        CHECK(e.watch == watch && !e.reason, "event %u: %s", e.type, e.text);
        k->told++;
        if (e.type == RDMAD_EVENT_NAMES_ANEW) {
            memset(k->there, 0, sizeof(k->there));
            k->anew++;
        } else {
            k->there[number_of(&e)] = e.type == RDMAD_EVENT_NAME_THERE;
        }
    }
}

struct many {
    rdmad_session *owner[OWNERS];
    rdmad_pool *pool[OWNERS];
    rdmad_lease *lease[ALL];
};

static void flip(struct many *m, unsigned n) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    char name[RDMAD_NAME_MAX + 1];
    unsigned o = n / EACH;
    if (m->lease[n]) {
        rdmad_lease_free(m->lease[n]);
        m->lease[n] = NULL;
        return;
    }
    snprintf(name, sizeof(name), "many-%04u-%045d", n, 0); /* long ones fill the sockets sooner */
    terms.name = name;
    CHECK(!rdmad_lease_grant(m->owner[o], rdmad_pool_base(m->pool[o]), 4096, &terms, &m->lease[n]),
          "%s", rdmad_last_error(m->owner[o]));
}

/* A watcher who reads little while 5,000 names come and go knows in the end what there is. */
static void slow(struct two *t) {
    static struct many m;
    static struct known k;
    unsigned there = 0, seed = 3;
    uint64_t watch;

    memset(&m, 0, sizeof(m));
    memset(&k, 0, sizeof(k));
    for (unsigned o = 0; o < OWNERS; o++) {
        m.owner[o] = client_open(t->a);
        CHECK(!rdmad_pool_create(m.owner[o], BYTES, 0, &m.pool[o]), "%s",
              rdmad_last_error(m.owner[o]));
    }
    CHECK(!rdmad_names_watch(t->asker, t->where, "many-", 0, &watch), "%s",
          rdmad_last_error(t->asker));
    for (unsigned n = 0; n < ALL; n++)
        flip(&m, n);
    hear(t->asker, watch, &k, 1000);
    for (unsigned i = 0; i < 2 * ALL; i++) {
        seed = seed * 1103515245u + 12345u;
        flip(&m, (seed >> 8) % ALL);
        if (i % 2000 == 0)
            hear(t->asker, watch, &k, 20);
    }
    CHECK(tdaemon_rss_bytes(t->a) < UINT64_C(512) << 20 && tdaemon_rss_bytes(t->b) < UINT64_C(512)
                                                                                         << 20,
          "they hold %llu and %llu bytes", (unsigned long long)tdaemon_rss_bytes(t->a),
          (unsigned long long)tdaemon_rss_bytes(t->b));
    hear(t->asker, watch, &k, UINT32_MAX);
    for (unsigned n = 0; n < ALL; n++) {
        CHECK(k.there[n] == !!m.lease[n], "name %u is %s, he knows it as %s", n,
              m.lease[n] ? "there" : "gone", k.there[n] ? "there" : "gone");
        there += k.there[n];
    }
    fprintf(stderr, "%u names there of %u, after %u events; anew %u times\n", there, ALL, k.told,
            k.anew);
    for (unsigned n = 0; n < ALL; n += 1000)
        flip(&m, n); /* and it goes on */
    hear(t->asker, watch, &k, UINT32_MAX);
    for (unsigned n = 0; n < ALL; n += 1000)
        CHECK(k.there[n] == !!m.lease[n], "name %u", n);
    for (unsigned o = 0; o < OWNERS; o++)
        rdmad_close(m.owner[o]);
}

static void who_reads_slowly_ends_up_with_the_names_there_are(void) {
    each_way(slow);
}

static void the_watch_of_a_lost_daemon_ends(void) {
    struct tdaemon *a = tdaemon_start("127.0.0.1", NULL), *b = tdaemon_start("127.0.0.2", NULL);
    rdmad_session *s = client_open(b);
    struct rdmad_event e = RDMAD_EVENT_INIT;
    uint64_t watch;
    char where[64];

    snprintf(where, sizeof(where), "rdmad://%s/", tdaemon_listen(a));
    CHECK(!rdmad_names_watch(s, where, NULL, 0, &watch), "%s", rdmad_last_error(s));
    tdaemon_kill(a);
    CHECK(!rdmad_next_event(s, (int)TEST_PATIENCE_MS, &e), "no event");
    CHECK(e.type == RDMAD_EVENT_NAME_GONE && e.reason == RDMAD_E_PEER_LOST && e.watch == watch,
          "event %u: %s", e.type, e.text);
    CHECK(rdmad_names_watch(s, where, NULL, 2000, &watch) < 0, "nobody is there");
    rdmad_close(s);
    tdaemon_stop(b);
    tdaemon_restart(a);
    tdaemon_stop(a);
}

/* ---- a program's own memory ----------------------------------------------------------------- */

static int memory(size_t bytes, unsigned seals) {
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && !ftruncate(fd, (off_t)bytes), "no memfd");
    CHECK(!seals || !fcntl(fd, F_ADD_SEALS, seals), "no seals");
    return fd;
}

static void not_imported(rdmad_session *s, int fd, int code, const char *words) {
    rdmad_pool *pool = NULL;
    client_refused(s, rdmad_pool_import(s, fd, &pool), code, words);
    CHECK(!pool, "there is a pool");
    close(fd);
}

static void only_sealed_memory_is_imported(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    o.runtime_dir = tdaemon_dir(d);
    o.resume = 0; /* else it may have all its seals */
    CHECK(rdmad_open(&o, &s) == 0, "%s", rdmad_last_error(NULL));
    json_t *before = tdaemon_objects(d);
    char path[64], proc[64];
    rdmad_pool *none;
    int fds[2];

    not_imported(s, memory(BYTES, F_SEAL_GROW | F_SEAL_SEAL), RDMAD_E_PERM, "F_SEAL_SHRINK");
    not_imported(s, memory(BYTES, SEALS | F_SEAL_SEAL), RDMAD_E_PERM, "before it is imported");
    not_imported(s, memory(BYTES, SEALS | F_SEAL_WRITE), RDMAD_E_PERM, "before it is imported");
    not_imported(s, memory(BYTES, SEALS | F_SEAL_FUTURE_WRITE), RDMAD_E_PERM,
                 "before it is imported");
    not_imported(s, memory(BYTES + 100, SEALS), RDMAD_E_INVAL, "multiple");
    not_imported(s, memory(0, SEALS), RDMAD_E_INVAL, "one byte");
    CHECK(!pipe(fds), "no pipe");
    close(fds[1]);
    not_imported(s, fds[0], RDMAD_E_FDS, "no memfd");
    snprintf(path, sizeof(path), "/dev/shm/rdmad-test-%d", (int)getpid());
    fds[0] = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fds[0] >= 0 && !ftruncate(fds[0], BYTES), "no file in %s", path);
    unlink(path);
    not_imported(s, fds[0], RDMAD_E_PERM, "not sealed");
    not_imported(s, open("/proc/self/exe", O_RDONLY), RDMAD_E_FDS, "not of a memfd");
    fds[0] = memory(BYTES, SEALS);
    snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fds[0]);
    not_imported(s, open(proc, O_RDONLY), RDMAD_E_PERM, "reading and writing");
    close(fds[0]);
    client_refused(s, rdmad_pool_import(s, 999, &none), RDMAD_E_FDS, "999");
    tdaemon_expect_objects(d, before);
    rdmad_close(s);
    tdaemon_stop(d);
}

static void imported(struct two *t) {
    int fd = memory(BYTES, 0);
    char *mine = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), *piece;
    rdmad_lease *own = published(t, "imported", RDMAD_SCOPE_ANY, 0), *l;
    char *theirs = rdmad_pool_base(t->pool), uri[RDMAD_URI_MAX + 1];
    rdmad_pool *pool;

    CHECK(mine != MAP_FAILED, "no memory");
    memset(mine, 'm', BYTES);
    CHECK(!fcntl(fd, F_ADD_SEALS, SEALS), "no seals");
    unsigned before = tdaemon_fds(t->b);
    CHECK(!rdmad_pool_import(t->asker, fd, &pool), "%s", rdmad_last_error(t->asker));
    close(fd);
    CHECK(rdmad_pool_size(pool) == BYTES, "%zu bytes", rdmad_pool_size(pool));
    CHECK(tdaemon_fds(t->b) == before, "the daemon keeps a descriptor");
    CHECK(((char *)rdmad_pool_base(pool))[BYTES - 1] == 'm', "what was in it is gone");
    snprintf(uri, sizeof(uri), "%s", rdmad_lease_uri(own));
    CHECK(!rdmad_lease_attach(t->asker, uri, 0, &l), "%s", rdmad_last_error(t->asker));
    CHECK(!rdmad_write(l, 0, rdmad_pool_base(pool), 4096), "%s", rdmad_last_error(t->asker));
    CHECK(theirs[0] == 'm' && theirs[4095] == 'm', "it did not arrive");
    piece = rdmad_alloc(pool, 4096);
    CHECK(piece, "%s", rdmad_last_error(t->asker));
    theirs[7] = 't';
    CHECK(!rdmad_read(l, 0, piece, 4096), "%s", rdmad_last_error(t->asker));
    CHECK(piece[7] == 't' && mine[piece - (char *)rdmad_pool_base(pool) + 7] == 't',
          "it is not the program's memory");
    rdmad_free(pool, piece);
    rdmad_lease_free(l);
    CHECK(!rdmad_pool_destroy(pool), "%s", rdmad_last_error(t->asker));
    CHECK(mine[0] == 'm', "the program's mapping is its own");
    munmap(mine, BYTES);
}

static void a_programs_own_memory_is_a_pool(void) {
    each_way(imported);
}

TEST_MAIN(CASE(names_are_listed_in_order_for_who_may_see_them), CASE(odd_names_say_what_is_wrong),
          CASE(a_watch_tells_what_is_there_and_what_comes_and_goes),
          CASE(who_reads_slowly_ends_up_with_the_names_there_are),
          CASE(the_watch_of_a_lost_daemon_ends), CASE(only_sealed_memory_is_imported),
          CASE(a_programs_own_memory_is_a_pool))
