/* SPDX-License-Identifier: MIT */
/*
 * top_link_rates.c - what went over each link between two looks at them.
 *
 * A link that was not there at the first look was made since, so all that it has come to is of the
 * time between. Of one that has gone the daemon tells nothing more.
 */
#include "rdmactl/top.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_MAX 160

/* A link is one of a peer, of a worker, of a fabric, perhaps of one session. */
static const char *key_of(char buf[KEY_MAX], const json_t *row) {
    snprintf(buf, KEY_MAX, "%.0f %.0f %.0f %.80s", cli_number(row, "peer"),
             cli_number(row, "worker"), cli_number(row, "session"), cli_text(row, "fabric"));
    return buf;
}

/* Of all links of a look, by key: beside one that ends there may be the next. */
static json_t *index_of(const json_t *links) {
    json_t *all = json_object();
    char key[KEY_MAX];
    size_t i;
    json_t *row;
    json_array_foreach(links, i, row) {
        key_of(key, row);
        if (!json_object_get(all, key))
            json_object_set_new(all, key, json_array());
        json_array_append(json_object_get(all, key), row);
    }
    return all;
}

static bool is_closing(const json_t *row) {
    return strcmp(cli_text(row, "state"), "closing") == 0;
}

/* Whether it may be the same link, some time before: none that ends goes on, and no count falls. */
static bool may_be_former(const json_t *old, const json_t *row) {
    static const char *const counts[] = {"ops", "ops_failed", "bytes_read", "bytes_written"};
    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if (cli_number(old, counts[i]) > cli_number(row, counts[i]))
            return false;
    return is_closing(row) || !is_closing(old);
}

/* Each is the former of one only. Borrowed: the look has it, too. NULL: there is none. */
static const json_t *take_former(json_t *all, const json_t *row) {
    char key[KEY_MAX];
    json_t *list = json_object_get(all, key_of(key, row)), *old;
    size_t i;
    json_array_foreach(list, i, old) {
        if (!may_be_former(old, row))
            continue;
        json_array_remove(list, i);
        return old;
    }
    return NULL;
}

struct link_rate *top_link_rates(const json_t *before, const json_t *after, double span_s,
                                 size_t *count) {
    const json_t *links = json_object_get(after, "links");
    struct link_rate *out = calloc(json_array_size(links) + 1, sizeof(*out));
    /* If not all were told, one that is missing there may be an old one. */
    bool all_told = !json_is_true(json_object_get(before, "truncated"));
    json_t *all = index_of(json_object_get(before, "links"));
    size_t i;
    json_t *row;
    *count = out ? json_array_size(links) : 0;
    json_array_foreach(links, i, row) {
        const json_t *old = take_former(all, row);
        if (!out)
            break;
        out[i] = (struct link_rate){.row = row};
        if (!old && !all_told)
            continue;
        out[i].rates = top_rates_between(old, row, span_s);
        out[i].failed = top_rate(old, row, "ops_failed", span_s);
        out[i].retransmits = top_rate(old, row, "retransmits", span_s);
        out[i].took = top_took(old, row);
    }
    json_decref(all);
    return out;
}

void top_link_rates_free(struct link_rate *rates, size_t count) {
    for (size_t i = 0; i < count; i++)
        json_decref(rates[i].took);
    free(rates);
}
