/* SPDX-License-Identifier: MIT */
/*
 * call_words.c - a table: a verb for each method, with the parameter that says of what.
 */
#include "daemon/ctl/call_words.h"
#include "daemon/ctl/rpc.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *method, *words;
    const char *text, *between, *more; /* texts of params; what stands between, if both are there */
} of_method[] = {
    {"lease.revoke", "revokes lease ", NULL, "", NULL},
    {"session.kick", "ends session ", NULL, ": ", "why"},
    {"session.pause", "pauses session ", NULL, ": ", "why"},
    {"session.resume", "resumes session ", NULL, "", NULL},
    {"limit.set", "calls limit.set ", "who", " ", "set"},
    {"log.level", "sets the log's level to ", "level", "", NULL},
    {"peer.add", "adds the peer at ", "address", "", NULL},
    {"upgrade", "upgrades rdmad", NULL, " to ", "program"},
    {"reload", "has the settings read again", NULL, "", NULL},
};

static const char *text_of(const json_t *params, const char *name) {
    const char *text = name ? rpc_text(params, name) : NULL;
    return text ? text : "";
}

const char *call_words(const char *method, const json_t *params, char words[CALL_WORDS]) {
    char id[24] = "";
    if (json_object_get(params, "id"))
        snprintf(id, sizeof(id), "%" PRIu64, rpc_uint(params, "id"));
    if (!strcmp(method, "drain")) {
        snprintf(words, CALL_WORDS, "%s",
                 rpc_bool(params, "off") ? "ends the drain: rdmad goes on" : "drains rdmad");
        return words;
    }
    for (size_t i = 0; i < sizeof(of_method) / sizeof(of_method[0]); i++) {
        const char *text = text_of(params, of_method[i].text);
        const char *more = text_of(params, of_method[i].more);
        if (strcmp(of_method[i].method, method) != 0)
            continue;
        snprintf(words, CALL_WORDS, "%s%s%s%s%s", of_method[i].words, id, text,
                 *more ? of_method[i].between : "", more);
        return words;
    }
    snprintf(words, CALL_WORDS, "calls %s", method);
    return words;
}
