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
