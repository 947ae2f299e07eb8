/* SPDX-License-Identifier: MIT */
/*
 * What is published: in order, for who may see it, and told to who watches, each name once however
 * slowly he reads.
 */
#include "daemon/base/clock.h"
#include "daemon/base/timers.h"
#include "daemon/state/names.h"
#include "daemon/state/session.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MANY 300u

static struct name_table *names;
static struct timers timers;
static uint64_t loop_ns;
static struct name name[MANY];
static char text[MANY][RDMAD_NAME_MAX + 1];
static struct session me = {.uid = 7};
static const struct lessee who = {.session = &me};

static void up(void) {
    timers_init(&timers, NULL, NULL);
    cr_assert_eq(names_new(&timers, &names), 0);
    memset(name, 0, sizeof(name));
}

static void down(void) {
    for (unsigned i = 0; i < MANY; i++)
        names_remove(&name[i]);
    names_free(names);
    timers_fini(&timers);
}

/* The passes of the loop until there is nothing to do; how many. */
static unsigned passes(void) {
    unsigned n = 0;
    for (; timers_next(&timers) != CLOCK_NEVER; n++)
        timers_run(&timers, ++loop_ns);
    return n;
}

TestSuite(names, .init = up, .fini = down);

static void add(unsigned i, const char *format, unsigned number) {
    snprintf(text[i], sizeof(text[i]), format, number); /* NOLINT: all callers' are literals */
    name[i] = (struct name){.text = text[i], .kind = i % 2, .scope.peer = ""};
    names_add(names, &name[i]);
}

Test(names, pages_are_in_order_without_gaps_or_repetitions) {
    struct rdmad_name_entry entry[16];
    char last[RDMAD_NAME_MAX + 1] = "";
    unsigned total = 0, pages = 0;
    bool more = true;
    for (unsigned i = 0; i < MANY - 2; i++)
        add(i, "n-%04u", (i * 7919u) % (MANY - 2));
    add(MANY - 2, "m-%u", 1);
    add(MANY - 1, "o-%u", 1);
    while (more) {
        unsigned n = names_list(names, &who, "n-", last, entry, 16, &more);
        for (unsigned i = 0; i < n; i++) {
            cr_assert_lt(strcmp(last, entry[i].name), 0, "%s after %s", entry[i].name, last);
            strcpy(last, entry[i].name);
        }
        total += n;
        cr_assert_leq(++pages, MANY);
    }
    cr_expect_eq(total, MANY - 2);
    cr_expect_eq(names_list(names, &who, "", "n-9", entry, 16, &more), 1, "behind the last n");
    cr_expect_str_eq(entry[0].name, "o-1");
    cr_expect_eq(names_list(names, &who, "x", "", entry, 16, &more), 0);
}

Test(names, the_tree_is_right_however_names_come_and_go) {
    struct rdmad_name_entry entry[MANY];
    bool there[MANY] = {false}, more;
    unsigned seed = 1;
    for (unsigned round = 0; round < 20000; round++) {
        unsigned i = (seed = seed * 1103515245u + 12345u) >> 8 & 255u;
        if (there[i])
            names_remove(&name[i]);
        else
            add(i, "k%03u", i);
        there[i] = !there[i];
        if (round % 97)
            continue;
        unsigned n = names_list(names, &who, "k", "", entry, MANY, &more), at = 0;
        for (unsigned k = 0; k < 256; k++)
            if (there[k])
                cr_assert_str_eq(entry[at++].name, text[k]);
        cr_assert_eq(n, at);
    }
}

/* ---- watches ---- */

static struct {
    struct watch w;
    bool lags, told;
    unsigned there, gone, anew, room; /* room: it lags after so many; 0: by hand */
    unsigned known, more;
    char name[2 * NAMES_GONE_MAX][RDMAD_NAME_MAX + 1];
    int over;
    char log[4096];
} seen;

static bool lags(struct watch *w) {
    (void)w;
    return seen.lags;
}
/* What a watcher knows: of each text whether it is there. */
static void know(const char *name_, bool there) {
    for (unsigned i = 0; i < seen.known; i++) {
        if (strcmp(seen.name[i], name_) != 0)
            continue;
        if (!there)
            memcpy(seen.name[i], seen.name[--seen.known], sizeof(seen.name[i]));
        return;
    }
    if (there)
        memcpy(seen.name[seen.known++], name_, sizeof(seen.name[0]));
}
static void tell(struct watch *w, const struct rdmad_name_entry *entry, enum name_news what) {
    (void)w;
    cr_assert(!seen.lags, "nobody reads that now");
    if (seen.room && --seen.room == 0)
        seen.lags = true;
    if (what == NAMES_ANEW) {
        seen.known = 0;
        seen.anew++;
        return;
    }
    bool gone = what == NAME_GONE;
    know(entry->name, !gone);
    seen.there += !gone;
    seen.gone += gone;
    if (strlen(seen.log) < 4000)
        sprintf(seen.log + strlen(seen.log), "%c%s ", gone ? '-' : '+', entry->name);
}
static void told(struct watch *w) {
    (void)w;
    seen.told = true;
}
static void over(struct watch *w, int reason) {
    seen.over = reason;
    watch_end(w);
}
static void more(struct watch *w, unsigned count) {
    (void)w;
    seen.more += count;
}
static const struct watch_ops ops = {
    .lags = lags, .tell = tell, .told = told, .more = more, .over = over};

static void begin(const char *prefix) {
    memset(&seen, 0, sizeof(seen));
    watch_begin(&seen.w, names, &who, prefix, &ops);
}

Test(names, a_watch_tells_each_name_once_while_it_walks) {
    add(1, "b%u", 1);
    add(3, "d%u", 1);
    memset(&seen, 0, sizeof(seen));
    seen.lags = true; /* from the start */
    watch_begin(&seen.w, names, &who, "", &ops);
    cr_expect_eq(seen.there, 0);
    add(0, "a%u", 1); /* ahead: the walk will meet it */
    names_remove(&name[3]);
    seen.lags = false;
    watch_go_on(&seen.w);
    cr_expect(seen.told);
    cr_expect_str_eq(seen.log, "+b1 +a1 -d1 ", "what was there, then what has changed");
    add(3, "d%u", 1);
    names_remove(&name[0]);
    cr_expect_str_eq(seen.log, "+b1 +a1 -d1 +d1 -a1 ");
    watch_end(&seen.w);
    add(4, "e%u", 1);
    cr_expect_eq(seen.there, 3, "an ended watch is silent");
}

/* Whether what the watcher knows is what there is. */
static void knows_all(const bool *there, unsigned count) {
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++)
        n += there[i];
    cr_assert_eq(seen.known, n, "%u known, %u there", seen.known, n);
    for (unsigned i = 0; i < seen.known; i++)
        cr_assert_not_null(names_find(names, seen.name[i]), "%s is not there", seen.name[i]);
}

Test(names, who_reads_late_is_told_what_there_is_then) {
    begin("n");
    seen.lags = true;
    for (unsigned i = 0; i < MANY; i++)
        add(i, "n%u", i);
    for (unsigned i = 0; i < MANY; i += 2)
        names_remove(&name[i]);
    for (unsigned i = 0; i < MANY; i += 4)
        add(i, "n%u", i);
    cr_expect_eq(seen.there, 0);
    seen.lags = false;
    watch_go_on(&seen.w);
    passes();
    cr_expect_eq(seen.known, MANY / 2 + MANY / 4);
    cr_expect_eq(seen.there, MANY / 2 + MANY / 4, "each once, however often it came and went");
    cr_expect_eq(seen.over, 0);
    watch_end(&seen.w);
}

/* At random, with one who reads a few at a time, begins anew and again, and one who reads all. */
Test(names, however_slow_and_whenever_he_ends_up_with_what_there_is) {
    bool there[MANY] = {false};
    unsigned seed = 7;
    for (unsigned round = 0; round < 40; round++) {
        unsigned at = seed = seed * 1103515245u + 12345u;
        memset(&seen, 0, sizeof(seen));
        seen.room = 1 + (at >> 16) % 9;
        watch_begin(&seen.w, names, &who, "k1", &ops);
        for (unsigned step = 0; step < 2000; step++) {
            unsigned i = (seed = seed * 1103515245u + 12345u) >> 8 & 255u;
            if (there[i])
                names_remove(&name[i]);
            else
                add(i, i < 128 ? "k1-%03u" : "k2-%03u", i);
            there[i] = !there[i];
            if (seed >> 20 & 7)
                continue;
            seen.room = 1 + (seed >> 24) % 9;
            seen.lags = false;
            watch_go_on(&seen.w);
        }
        seen.room = 0;
        seen.lags = false;
        watch_go_on(&seen.w);
        passes();
        knows_all(there, 128);
        cr_assert_eq(seen.anew, 0);
        watch_end(&seen.w);
    }
}

Test(names, what_is_remembered_for_the_slow_is_bounded_and_then_they_begin_anew) {
    static struct name many[NAMES_GONE_MAX + 1];
    static char texts[NAMES_GONE_MAX + 1][16];
    bool there[4] = {true, false, false, true};
    add(0, "a%u", 0);
    begin("");
    add(1, "a%u", 1);
    seen.lags = true;
    for (unsigned i = 0; i <= NAMES_GONE_MAX; i++) {
        snprintf(texts[i], sizeof(texts[i]), "b%05u", i);
        many[i] = (struct name){.text = texts[i], .scope.peer = ""};
        names_add(names, &many[i]);
    }
    names_remove(&name[1]);
    for (unsigned i = 0; i < NAMES_GONE_MAX - 1; i++)
        names_remove(&many[i]);
    cr_expect_eq(names_gone(names), NAMES_GONE_MAX);
    names_remove(&many[NAMES_GONE_MAX - 1]);
    names_remove(&many[NAMES_GONE_MAX]);
    cr_expect_eq(names_gone(names), NAMES_GONE_MAX);
    add(3, "a%u", 3);
    seen.lags = false;
    watch_go_on(&seen.w);
    passes();
    cr_expect_eq(seen.anew, 1);
    knows_all(there, 4);
    cr_expect_eq(names_gone(names), 0, "nobody is behind any more");
    names_remove(&name[0]);
    cr_expect_eq(names_gone(names), 0, "who has caught up needs no memory");
    there[0] = false;
    knows_all(there, 4);
    seen.lags = true;
    names_remove(&name[3]);
    cr_expect_eq(names_gone(names), 1);
    watch_end(&seen.w);
    cr_expect_eq(names_gone(names), 0, "nor does who has left");
}

/* Clients choose how many there are, and the loop is everybody's. */
Test(names, what_a_watch_has_missed_is_looked_through_a_bounded_number_a_pass) {
    enum { THERE = 4000 };
    static struct name many[THERE];
    static char texts[THERE][16];
    add(0, "z%u", 0);
    begin("z");
    seen.lags = true;
    add(1, "z%u", 1);
    for (unsigned i = 0; i < THERE; i++) { /* which this watch does not see */
        snprintf(texts[i], sizeof(texts[i]), "b%05u", i);
        many[i] = (struct name){.text = texts[i], .scope.peer = ""};
        names_add(names, &many[i]);
    }
    add(2, "z%u", 2);
    seen.lags = false;
    for (uint64_t before = seen.w.since, n = 0; seen.w.behind; before = seen.w.since, n++) {
        watch_go_on(&seen.w); /* however often somebody says that there is room */
        watch_go_on(&seen.w);
        timers_run(&timers, ++loop_ns);
        cr_assert_leq(seen.w.since - before, NAMES_LOOKS_PASS + NAMES_LOOKS,
                      "%lu names in one pass", (unsigned long)(seen.w.since - before));
        cr_assert_leq(n, THERE, "it does not end");
    }
    cr_expect_str_eq(seen.log, "+z0 +z1 +z2 ");
    watch_end(&seen.w);

    begin(""); /* and what there is */
    cr_expect_leq(seen.there, NAMES_LOOKS);
    passes();
    cr_expect_eq(seen.there, THERE + 3);
    watch_end(&seen.w);
    for (unsigned i = 0; i < THERE; i++)
        names_remove(&many[i]);
}

static unsigned told_all;
static bool never_lags(struct watch *w) {
    (void)w;
    return false;
}
static void count(struct watch *w, const struct rdmad_name_entry *entry, enum name_news what) {
    (void)w, (void)entry, (void)what;
    told_all++;
}

Test(names, a_change_that_many_watch_is_told_to_a_bounded_number_a_pass) {
    enum { WATCHES = 1000 };
    static const struct watch_ops counting = {.lags = never_lags, .tell = count};
    static struct watch watch[WATCHES];
    for (unsigned i = 0; i < WATCHES; i++)
        watch_begin(&watch[i], names, &who, "", &counting);
    told_all = 0;
    add(0, "a%u", 0);
    cr_expect_leq(told_all, NAMES_TOLD_AT_ONCE, "%u are told at once", told_all);
    for (unsigned before = told_all; told_all < WATCHES; before = told_all) {
        timers_run(&timers, ++loop_ns);
        cr_assert_leq(told_all - before, NAMES_LOOKS_PASS);
        cr_assert_gt(told_all, before, "%u of %u were told", told_all, WATCHES);
    }
    names_remove(&name[0]);
    passes();
    cr_expect_eq(told_all, 2 * WATCHES, "each of both");
    cr_expect_eq(names_gone(names), 0, "nobody is behind");
    for (unsigned i = 0; i < WATCHES; i++)
        watch_end(&watch[i]);
}

static void never(struct timer *timer, uint64_t now) {
    (void)timer, (void)now;
    cr_assert(false, "it is not due");
}

Test(names, a_pass_is_as_short_when_many_other_timers_are_set) {
    enum { WATCHES = 1000, OTHERS = 1000 };
    static const struct watch_ops counting = {.lags = never_lags, .tell = count};
    static struct watch watch[WATCHES];
    static struct timer other[OTHERS];
    for (unsigned i = 0; i < OTHERS; i++) {
        timer_init(&other[i], never);
        cr_assert_eq(timer_set(&timers, &other[i], UINT64_MAX / 2), 0);
    }
    for (unsigned i = 0; i < WATCHES; i++)
        watch_begin(&watch[i], names, &who, "", &counting);
    told_all = 0;
    add(0, "a%u", 0);
    for (unsigned before = told_all; told_all < WATCHES; before = told_all) {
        timers_run(&timers, ++loop_ns);
        cr_assert_leq(told_all - before, NAMES_LOOKS_PASS, "%u are told in one pass",
                      told_all - before);
        cr_assert_gt(told_all, before, "%u of %u were told", told_all, WATCHES);
    }
    for (unsigned i = 0; i < WATCHES; i++)
        watch_end(&watch[i]);
    for (unsigned i = 0; i < OTHERS; i++)
        timer_unset(&timers, &other[i]);
}

Test(names, news_of_others_names_come_at_the_readers_pace) {
    struct rdmad_name_entry entry = {.name = "x"};
    memset(&seen, 0, sizeof(seen));
    watch_begin(&seen.w, NULL, NULL, "", &ops);
    seen.lags = true;
    for (unsigned i = 0; i < WATCH_WINDOW; i++)
        watch_news(&seen.w, &entry, i % 2 ? NAME_GONE : NAME_THERE);
    cr_expect_eq(seen.more, 0);
    seen.lags = false;
    watch_go_on(&seen.w);
    cr_expect_eq(seen.there + seen.gone, WATCH_WINDOW);
    cr_expect_eq(seen.more, WATCH_WINDOW);
    seen.lags = true;
    for (unsigned i = 0; i < WATCH_WINDOW; i++)
        watch_news(&seen.w, &entry, NAME_THERE);
    cr_expect_eq(seen.over, 0);
    watch_news(&seen.w, &entry, NAME_THERE); /* which nobody asked for */
    cr_expect_eq(seen.w.npending, 0, "what it held is free");
    seen.lags = false;
    watch_go_on(&seen.w);
    cr_expect_eq(seen.over, RDMAD_E_PROTOCOL);
}

Test(names, who_may_not_attach_does_not_see) {
    struct rdmad_name_entry entry[4];
    bool more;
    begin("");
    name[0] =
        (struct name){.text = "theirs", .scope = {.kind = RDMAD_SCOPE_UID, .uid = 8, .peer = ""}};
    name[1] =
        (struct name){.text = "mine", .scope = {.kind = RDMAD_SCOPE_UID, .uid = 7, .peer = ""}};
    name[2] = (struct name){.text = "peers",
                            .scope = {.kind = RDMAD_SCOPE_PEER, .uid = 0, .peer = "10.0.0.1"}};
    for (unsigned i = 0; i < 3; i++)
        names_add(names, &name[i]);
    names_remove(&name[0]);
    names_add(names, &name[0]);
    cr_expect_str_eq(seen.log, "+mine ");
    cr_expect_eq(names_list(names, &who, "", "", entry, 4, &more), 1);
    struct lessee peer = {.peer = 3, .address = "10.0.0.1"};
    cr_expect_eq(names_list(names, &peer, "", "", entry, 4, &more), 1);
    cr_expect_str_eq(entry[0].name, "peers");
    watch_end(&seen.w);
}

Test(names, pages_go_through_all_that_one_may_see_and_nothing_else) {
    struct rdmad_name_entry entry[3];
    struct lessee peer = {.peer = 3, .address = "::ffff:10.0.0.1"};
    char last[RDMAD_NAME_MAX + 1] = "";
    unsigned total = 0;
    bool more = true;
    for (unsigned i = 0; i < 60; i++) {
        snprintf(text[i], sizeof(text[i]), "n%02u", i * 7 % 60);
        name[i] = (struct name){.text = text[i], .scope.peer = ""};
        if (i % 4 == 1)
            name[i].scope = (struct scope){RDMAD_SCOPE_UID, i % 8 == 1 ? 7 : 8, "", 0};
        else if (i % 4 == 2)
            name[i].scope =
                (struct scope){RDMAD_SCOPE_PEER, 0, i % 8 == 2 ? "10.0.0.1" : "10.0.0.2", 0};
        names_add(names, &name[i]);
    }
    while (more) {
        unsigned n = names_list(names, &peer, "n", last, entry, 3, &more);
        for (unsigned i = 0; i < n; i++) {
            const struct name *found = names_find(names, entry[i].name);
            cr_assert(found && scope_admits(&found->scope, &peer), "%s", entry[i].name);
            cr_assert_lt(strcmp(last, entry[i].name), 0, "%s after %s", entry[i].name, last);
            strcpy(last, entry[i].name);
        }
        total += n;
    }
    cr_expect_eq(total, 30 + 8, "of anybody, and of the peer");
    begin("n");
    cr_expect_eq(seen.there, 30 + 8, "of anybody, and of uid 7");
    watch_end(&seen.w);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t time_of_lists(void) {
    struct rdmad_name_entry entry[16];
    bool more;
    uint64_t then = now_ns();
    for (int i = 0; i < 200; i++)
        cr_assert_eq(names_list(names, &who, "", "", entry, 16, &more), 8);
    return now_ns() - then;
}

Test(names, what_one_may_not_see_costs_one_nothing) {
    enum { HIDDEN = 50000 };
    static struct name hidden[HIDDEN];
    static char texts[HIDDEN][16];
    for (unsigned i = 0; i < 8; i++)
        add(i, "k%u", i);
    uint64_t before = time_of_lists();
    for (unsigned i = 0; i < HIDDEN; i++) {
        snprintf(texts[i], sizeof(texts[i]), "k%u-%u", i % 8, i);
        hidden[i] = (struct name){.text = texts[i],
                                  .scope = {.kind = RDMAD_SCOPE_UID, .uid = 8, .peer = ""}};
        names_add(names, &hidden[i]);
    }
    uint64_t after = time_of_lists();
    printf("8 names listed: %.1f times as long among %u hidden ones\n",
           (double)after / (double)before, HIDDEN);
    cr_expect_lt(after, 30 * before);
    for (unsigned i = 0; i < HIDDEN; i++)
        names_remove(&hidden[i]);
}

Test(names, a_taken_name_says_by_what) {
    struct error err;
    add(1, "board%u", 1);
    cr_expect_eq(names_check_free(names, "board1", &err), RDMAD_E_EXISTS);
    cr_expect_not_null(strstr(err.text, "a service is published as \"board1\""), "%s", err.text);
    cr_expect_eq(names_check_free(names, "board", &err), 0);
}

Test(names, a_prefix_that_nothing_begins_with_is_told_by_its_byte) {
    struct error err;
    cr_expect_eq(names_check_prefix("", &err), 0);
    cr_expect_eq(names_check_prefix("a.B-9_", &err), 0);
    cr_expect_eq(names_check_prefix("ab\n", &err), RDMAD_E_NAME);
    cr_expect_not_null(strstr(err.text, "byte 2 is 0x0a"), "%s", err.text);
    cr_expect_eq(names_check_prefix(".a", &err), RDMAD_E_NAME);
}
