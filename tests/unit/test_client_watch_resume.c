/* SPDX-License-Identifier: MIT */
/*
 * Watches that are begun anew at the next daemon, while the program ends and begins others. Link
 * with -Wl,--wrap=calloc,--wrap=free.
 */
#include "libclient/base/session.h" /* first: its parameters are named as our globals */

#include "tests/unit/client_rig.h"
#include <criterion/criterion.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_AGAIN = 1, SECOND = 3 }; /* the next daemon's numbers; 3 was the first's before */

static bool refuses, holds;    /* atomic; the first watch, at the next daemon */
static unsigned nheld, nended; /* atomic */
static struct rdmad_msg_header held_request;
static uint64_t ended; /* the daemon's number of the watch that was ended last */

/* ---- the heap: what is freed last is given out next ------------------------------------------ */

static __thread bool reuses;
static __thread void *kept;
static __thread unsigned reused;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void __real_free(void *at);
void __wrap_free(void *at);

void *__wrap_calloc(size_t count, size_t size) {
    void *again = kept;
    if (!reuses || !kept || malloc_usable_size(kept) < count * size)
        return __real_calloc(count, size);
    kept = NULL;
    reused++;
    return memset(again, 0, count * size);
}

void __wrap_free(void *at) {
    if (reuses && !kept)
        kept = at;
    else
        __real_free(at);
}

/* ---- the daemons ----------------------------------------------------------------------------- */

static bool is_set(const bool *flag) {
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void begin_anew(struct fake_daemon *f, const struct rdmad_msg_header *h) {
    struct rdmad_names_watch_rep rep = {.watch = FIRST_AGAIN};
    if (is_set(&holds)) {
        held_request = *h;
        __atomic_add_fetch(&nheld, 1, __ATOMIC_RELEASE);
    } else if (is_set(&refuses)) {
        fake_refuse(f, h, RDMAD_E_UNREACHABLE, "not yet");
    } else {
        fake_reply(f, h, &rep, sizeof(rep));
    }
}

static bool answer(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    const struct rdmad_names_watch_req *req = body;
    struct rdmad_names_watch_rep rep = {.watch = SECOND};
    const struct rdmad_names_unwatch_req *end = body;
    if (h->type == RDMAD_MSG_NAMES_UNWATCH && end->watch) { /* 0: whether it is there */
        ended = end->watch;
        __atomic_add_fetch(&nended, 1, __ATOMIC_RELEASE);
    }
    if (h->type != RDMAD_MSG_NAMES_WATCH || __atomic_load_n(&f->lives, __ATOMIC_ACQUIRE) < 2)
        return false;
    if (strcmp(req->prefix, "first") == 0)
        begin_anew(f, h);
    else
        fake_reply(f, h, &rep, sizeof(rep));
    return true;
}

static void up(void) {
    fake.outlived = true;
    fake.hook = answer;
    rig_set_up();
}

TestSuite(watch_resume, .init = up, .fini = rig_tear_down, .timeout = 60);

static void await(const unsigned *count, unsigned value) {
    for (unsigned ms = 0; ms < 20000 && __atomic_load_n(count, __ATOMIC_ACQUIRE) < value; ms++)
        usleep(1000);
    cr_assert_geq(__atomic_load_n(count, __ATOMIC_ACQUIRE), value);
}

static uint64_t watch(const char *prefix) {
    uint64_t number;
    cr_assert_eq(rdmad_names_watch(s, NULL, prefix, 1000, &number), 0, "%s", rdmad_last_error(s));
    return number;
}

static void tell_there(uint64_t there) {
    struct rdmad_ev_name ev = {.watch = there};
    strcpy(ev.entry.name, "second.name");
    fake_event(&fake, RDMAD_EV_NAME, &ev, sizeof(ev));
}

static void expect_news_of(uint64_t number) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    tell_there(SECOND);
    cr_assert_eq(rdmad_next_event(s, 20000, &e), 0, "%s", rdmad_last_error(s));
    cr_assert_eq(e.type, RDMAD_EVENT_NAME_THERE, "%u: %s", e.type, e.text);
    cr_assert_eq(e.watch, number);
}

/* ---- the cases ------------------------------------------------------------------------------- */

Test(watch_resume, one_that_is_ended_while_it_is_asked_for_again_is_not_taken_for_the_next_one) {
    uint64_t first = watch("first");
    __atomic_store_n(&refuses, true, __ATOMIC_RELEASE);
    rig_daemon_follows();
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
    __atomic_store_n(&holds, true, __ATOMIC_RELEASE);
    await(&nheld, 1);
    reuses = true;
    cr_assert_eq(rdmad_names_unwatch(s, first), 0, "%s", rdmad_last_error(s));
    uint64_t second = watch("second");
    reuses = false;
    cr_assert_eq(reused, 1, "the second is not where the first was");
    const struct rdmad_names_watch_rep rep = {.watch = FIRST_AGAIN};
    unsigned before = __atomic_load_n(&nended, __ATOMIC_ACQUIRE);
    fake_reply(&fake, &held_request, &rep, sizeof(rep));
    expect_news_of(second);
    await(&nended, before + 1);
    cr_assert_eq(ended, FIRST_AGAIN, "the daemon has it for ever");
}

Test(watch_resume, no_two_watches_have_the_same_number_whatever_the_next_daemon_counts) {
    uint64_t first = watch("first");
    rig_daemon_follows();
    rig_expect_event(RDMAD_EVENT_NAMES_ANEW);
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
    uint64_t second = watch("second");
    cr_assert_neq(first, second);
    expect_news_of(second);
    cr_assert_eq(rdmad_names_unwatch(s, first), 0, "%s", rdmad_last_error(s));
    cr_assert_eq(ended, FIRST_AGAIN);
    cr_assert_eq(rdmad_names_unwatch(s, second), 0, "%s", rdmad_last_error(s));
    cr_assert_eq(ended, SECOND);
}

Test(watch_resume, a_watch_that_has_ended_is_not_the_daemons_to_end) {
    uint64_t first = watch("first");
    rig_daemon_follows();
    rig_expect_event(RDMAD_EVENT_NAMES_ANEW);
    rig_expect_event(RDMAD_EVENT_SESSION_RESUMED);
    uint64_t second = watch("second");
    cr_assert_eq(rdmad_names_unwatch(s, first), 0);
    cr_assert_eq(first, SECOND, "the case needs a number that both have");
    cr_assert_eq(rdmad_names_unwatch(s, first), RDMAD_E_HANDLE);
    cr_assert(strstr(rdmad_last_error(s), "no watch 3"), "%s", rdmad_last_error(s));
    expect_news_of(second);
    cr_assert_eq(ended, FIRST_AGAIN, "the daemon has ended the other");
}

Test(watch_resume, no_watch_waits_for_the_answer_to_another) {
    for (unsigned i = 0; i < 3; i++)
        watch("first");
    __atomic_store_n(&holds, true, __ATOMIC_RELEASE);
    rig_daemon_follows();
    await(&nheld, 3);
}
