/* SPDX-License-Identifier: MIT */
/*
 * What is published: in order, for who may see it, and told to who watches, each name once however
 * slowly he reads.
 */
#include "daemon/state/names.h"
#include "daemon/state/session.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MANY 300u

static struct names *names;
static struct name name[MANY];
static char text[MANY][RDMAD_NAME_MAX + 1];
static struct session me = {.uid = 7};
static const struct lessee who = {.session = &me};

static void up(void) {
    cr_assert_eq(names_new(&names), 0);
    memset(name, 0, sizeof(name));
}

static void down(void) {
    for (unsigned i = 0; i < MANY; i++)
        names_remove(&name[i]);
    names_free(names);
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
    unsigned there, gone;
    int over;
    char log[4096];
} seen;

static bool lags(struct watch *w) {
    (void)w;
    return seen.lags;
}
static void tell(struct watch *w, const struct rdmad_name_entry *entry, bool gone) {
    (void)w;
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
static const struct watch_ops ops = {lags, tell, told, over};

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
    cr_expect_str_eq(seen.log, "+a1 +b1 ");
    add(3, "d%u", 1);
    names_remove(&name[0]);
    cr_expect_str_eq(seen.log, "+a1 +b1 +d1 -a1 ");
    watch_end(&seen.w);
    add(4, "e%u", 1);
    cr_expect_eq(seen.there, 3, "an ended watch is silent");
}

Test(names, news_waits_for_the_reader_up_to_a_bound) {
    begin("n");
    seen.lags = true;
    for (unsigned i = 0; i < WATCH_PENDING_MAX; i++)
        add(i, "n%u", i);
    cr_expect_eq(seen.there, 0);
    seen.lags = false;
    watch_go_on(&seen.w);
    cr_expect_eq(seen.there, WATCH_PENDING_MAX);
    cr_expect_eq(seen.over, 0);
    seen.lags = true;
    for (unsigned i = 0; i < WATCH_PENDING_MAX; i++)
        names_remove(&name[i]);
    add(0, "n%u", 0); /* one too many */
    cr_expect_eq(seen.over, 0, "nobody reads that now");
    cr_expect_eq(seen.w.npending, 0, "what it held is free");
    seen.lags = false;
    watch_go_on(&seen.w);
    cr_expect_eq(seen.over, RDMAD_E_LIMIT);
    cr_expect_eq(seen.gone, 0);
}

Test(names, who_may_not_attach_does_not_see) {
    struct rdmad_name_entry entry[4];
    bool more;
    begin("");
    name[0] = (struct name){.text = "theirs", .scope = {RDMAD_SCOPE_UID, 8, ""}};
    name[1] = (struct name){.text = "mine", .scope = {RDMAD_SCOPE_UID, 7, ""}};
    name[2] = (struct name){.text = "peers", .scope = {RDMAD_SCOPE_PEER, 0, "10.0.0.1"}};
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
            name[i].scope = (struct scope){RDMAD_SCOPE_UID, i % 8 == 1 ? 7 : 8, ""};
        else if (i % 4 == 2)
            name[i].scope =
                (struct scope){RDMAD_SCOPE_PEER, 0, i % 8 == 2 ? "10.0.0.1" : "10.0.0.2"};
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
        hidden[i] = (struct name){.text = texts[i], .scope = {RDMAD_SCOPE_UID, 8, ""}};
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
