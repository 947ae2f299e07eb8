/* SPDX-License-Identifier: MIT */
/*
 * rules.c - the table of what a rule can set, and rules in memory.
 */
#include "daemon/config/rules.h"
#include "daemon/config/schema.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOTH (RULE_OF_USER | RULE_OF_PEER)
#define LIMIT(n) \
    { .name = (n), .kind = RULE_NUMBER, .whose = RULE_OF_USER }

const struct rule_key_spec rule_keys[RULE_KEYS] = {
    [RULE_CONNECT] = {"connect", RULE_BOOL, RULE_OF_USER, 0, 0},
    [RULE_ADMIN] = {"admin", RULE_WORD_ADMIN, RULE_OF_USER, 0, 0},
    [RULE_HUGE_PAGES] = {"huge_pages", RULE_BOOL, RULE_OF_USER, 0, 0},
    [RULE_SCOPES] = {"scopes", RULE_WORDS_SCOPES, RULE_OF_USER, 0, 0},
    [RULE_GRANT_RIGHTS] = {"grant_rights", RULE_LETTERS, RULE_OF_USER, 0, 0},
    [RULE_ATTACH_RIGHTS] = {"attach_rights", RULE_LETTERS, RULE_OF_USER, 0, 0},
    [RULE_NAMES] = {"names", RULE_LIST, BOTH, 0, 0},
    [RULE_SERVICES] = {"services", RULE_LIST, RULE_OF_USER, 0, 0},
    [RULE_PEERS] = {"peers", RULE_LIST, RULE_OF_USER, 0, 0},
    [RULE_DIALS] = {"dials", RULE_BOOL, RULE_OF_PEER, 0, 0},
    [RULE_DIALLED] = {"dialled", RULE_BOOL, RULE_OF_PEER, 0, 0},
    [RULE_ATTACH] = {"attach", RULE_BOOL, RULE_OF_PEER, 0, 0},
    [RULE_REGISTERED_BYTES] = {"registered_bytes", RULE_NUMBER, RULE_OF_PEER, 0, UINT64_C(1) << 50},
    [RULE_ATTACHES] = {"attaches", RULE_NUMBER, RULE_OF_PEER, 0, UINT64_C(1) << 30},
    [RULE_NOTIFICATIONS] = {"notifications", RULE_NUMBER, RULE_OF_PEER, 0, UINT64_C(1) << 30},
    [RULE_CHANNELS] = {"channels", RULE_NUMBER, RULE_OF_PEER, 0, UINT64_C(1) << 30},
    [RULE_CONNECTIONS] = {"connections", RULE_NUMBER, RULE_OF_PEER, 0, UINT64_C(1) << 30},
    [RULE_MESSAGES_PER_SECOND] = {"messages_per_second", RULE_NUMBER, RULE_OF_PEER, 0,
                                  UINT64_C(1) << 30},
    [RULE_QUESTIONS_PER_SECOND] = {"questions_per_second", RULE_NUMBER, RULE_OF_PEER, 0,
                                   UINT64_C(1) << 30},
    [RULE_WEIGHT] = {"weight", RULE_NUMBER, BOTH, 1, 10000},
    [RULE_BYTES_PER_SECOND] = {"bytes_per_second", RULE_NUMBER, BOTH, 0, UINT64_C(1) << 50},
    [RULE_OPS_PER_SECOND] = {"ops_per_second", RULE_NUMBER, BOTH, 0, UINT64_C(1) << 40},
    [RULE_PRIORITY] = {"priority", RULE_SIGNED, BOTH, 0, 0},
    [RULE_SESSIONS_PER_UID] = LIMIT("sessions_per_uid"),
    [RULE_POOL_BYTES_PER_UID] = LIMIT("pool_bytes_per_uid"),
    [RULE_POOL_BYTES_PER_SESSION] = LIMIT("pool_bytes_per_session"),
    [RULE_REGISTERED_BYTES_PER_UID] = LIMIT("registered_bytes_per_uid"),
    [RULE_REGISTERED_BYTES_PER_SESSION] = LIMIT("registered_bytes_per_session"),
    [RULE_POOLS_PER_UID] = LIMIT("pools_per_uid"),
    [RULE_POOLS_PER_SESSION] = LIMIT("pools_per_session"),
    [RULE_RINGS_PER_UID] = LIMIT("rings_per_uid"),
    [RULE_RINGS_PER_SESSION] = LIMIT("rings_per_session"),
    [RULE_LEASES_PER_UID] = LIMIT("leases_per_uid"),
    [RULE_LEASES_PER_SESSION] = LIMIT("leases_per_session"),
    [RULE_ATTACHES_PER_UID] = LIMIT("attaches_per_uid"),
    [RULE_ATTACHES_PER_SESSION] = LIMIT("attaches_per_session"),
    [RULE_SERVICES_PER_UID] = LIMIT("services_per_uid"),
    [RULE_SERVICES_PER_SESSION] = LIMIT("services_per_session"),
    [RULE_CHANNELS_PER_UID] = LIMIT("channels_per_uid"),
    [RULE_CHANNELS_PER_SESSION] = LIMIT("channels_per_session"),
    [RULE_QUESTIONS_PER_UID] = LIMIT("questions_per_uid"),
    [RULE_QUESTIONS_PER_SESSION] = LIMIT("questions_per_session"),
    [RULE_MAPPINGS_PER_UID] = LIMIT("mappings_per_uid"),
    [RULE_OPS_PER_UID] = LIMIT("ops_per_uid"),
    [RULE_WAITS_PER_UID] = LIMIT("waits_per_uid"),
    [RULE_WAITS_PER_SESSION] = LIMIT("waits_per_session"),
    [RULE_CALLS_PER_SECOND_PER_UID] = LIMIT("calls_per_second_per_uid"),
};

enum rule_key rule_key_find(const char *name, unsigned whose, bool limit) {
    for (unsigned k = limit ? RULE_LIMITS : 0; k < (limit ? RULE_KEYS : RULE_LIMITS); k++)
        if ((rule_keys[k].whose & whose) && !strcmp(rule_keys[k].name, name))
            return (enum rule_key)k;
    return RULE_KEYS;
}

int rule_check_number(enum rule_key key, int64_t value, struct error *err) {
    const struct rule_key_spec *k = &rule_keys[key];
    uint64_t min = k->min, max = k->max;
    if (k->kind == RULE_SIGNED) {
        if (value >= -1 && value <= 1)
            return 0;
        return error_set(err, RDMAD_E_CONFIG, "%s is %" PRId64 ", must be -1 (low), 0 or 1 (high)",
                         k->name, value);
    }
    if (key >= RULE_LIMITS) {
        char full[80];
        snprintf(full, sizeof(full), "limits.%s", k->name);
        const struct setting *s = setting_find(full);
        min = s->min;
        max = s->max;
    }
    if (value >= 0 && (uint64_t)value >= min && (uint64_t)value <= max)
        return 0;
    return error_set(err, RDMAD_E_CONFIG, "%s is %" PRId64 ", must be from %" PRIu64 " to %" PRIu64,
                     k->name, value, min, max);
}

bool rule_pattern_ok(const char *text) {
    size_t n = strlen(text);
    if (!strcmp(text, RULE_UNNAMED))
        return true;
    if (n > RDMAD_NAME_MAX + 1 || !n || (text[n - 1] != '*' && n > RDMAD_NAME_MAX))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:[]",
                    text[i]) &&
            !(text[i] == '*' && i == n - 1))
            return false;
    return true;
}

bool rule_pattern_is_beginning(const char *pattern) {
    size_t n = strlen(pattern);
    return n && pattern[n - 1] == '*' && strcmp(pattern, RULE_UNNAMED) != 0;
}

static const char *const admin_words[] = {"none", "own", "all", "act"};

int rule_admin_of(const char *word) {
    for (int i = 0; i < 4; i++)
        if (!strcmp(admin_words[i], word))
            return i;
    return -1;
}

const char *rule_admin_word(enum rule_admin admin) {
    return admin_words[admin];
}

/* ---- in memory --------------------------------------------------------------------------- */

struct rules *rules_new(void) {
    return calloc(1, sizeof(struct rules));
}

void rule_value_clear(struct rule_value *v) {
    for (unsigned i = 0; i < v->list.count; i++)
        free(v->list.text[i]);
    free(v->list.text);
    *v = (struct rule_value){0};
}

static void rule_free(struct rule *r) {
    for (unsigned k = 0; k < RULE_KEYS; k++)
        rule_value_clear(&r->value[k]);
    free(r->file);
    free(r);
}

void rules_free(struct rules *r) {
    if (!r)
        return;
    for (unsigned i = 0; i < r->nusers; i++)
        rule_free(r->users[i]);
    for (unsigned i = 0; i < r->npeers; i++)
        rule_free(r->peers[i]);
    free(r->users);
    free(r->peers);
    free(r->sockets);
    free(r);
}

struct rule *rules_add(struct rules *r, bool peer, const char *file) {
    struct rule ***list = peer ? &r->peers : &r->users;
    unsigned *count = peer ? &r->npeers : &r->nusers;
    struct rule **more = realloc(*list, (*count + 1) * sizeof(struct rule *));
    struct rule *rule = more ? calloc(1, sizeof(*rule)) : NULL;
    if (more)
        *list = more;
    if (!rule)
        return NULL;
    rule->file = strdup(file);
    if (!rule->file) { /* a rule that its maker never fills would be one of uid 0 */
        free(rule);
        return NULL;
    }
    more[(*count)++] = rule;
    return rule;
}

struct rule_socket *rules_add_socket(struct rules *r) {
    struct rule_socket *more = realloc(r->sockets, (r->nsockets + 1) * sizeof(*more));
    if (!more)
        return NULL;
    r->sockets = more;
    memset(&more[r->nsockets], 0, sizeof(*more));
    return &more[r->nsockets++];
}

int rule_list_add(struct rule_list *list, const char *text) {
    char **more = realloc(list->text, (list->count + 1) * sizeof(*more));
    char *copy = more ? strdup(text) : NULL;
    if (more)
        list->text = more;
    if (!copy)
        return RDMAD_E_NOMEM;
    more[list->count++] = copy;
    return 0;
}

static bool same_list(const struct rule_list *a, const struct rule_list *b) {
    bool same = a->count == b->count;
    for (unsigned i = 0; same && i < a->count; i++)
        same = !strcmp(a->text[i], b->text[i]);
    return same;
}

bool rule_same(const struct rule *a, const struct rule *b) {
    bool same = a->by_uid == b->by_uid && a->by_gid == b->by_gid && a->by_socket == b->by_socket &&
                a->uid == b->uid && a->gid == b->gid && !strcmp(a->socket, b->socket) &&
                !strcmp(a->peer, b->peer);
    for (unsigned k = 0; same && k < RULE_KEYS; k++)
        same = a->value[k].set == b->value[k].set && a->value[k].number == b->value[k].number &&
               same_list(&a->value[k].list, &b->value[k].list);
    return same;
}

unsigned rule_line(const struct rule *r) {
    unsigned first = 0;
    for (unsigned k = 0; k < RULE_KEYS; k++)
        if (r->value[k].set && (!first || r->value[k].line < first))
            first = r->value[k].line;
    return first;
}

static bool same_socket(const struct rule_socket *a, const struct rule_socket *b) {
    return !strcmp(a->tenant, b->tenant) && !strcmp(a->path, b->path) && a->user == b->user &&
           a->group == b->group && a->mode == b->mode;
}

bool rules_same_sockets(const struct rules *a, const struct rules *b) {
    unsigned na = a ? a->nsockets : 0, nb = b ? b->nsockets : 0;
    bool same = na == nb;
    for (unsigned i = 0; same && i < na; i++)
        same = same_socket(&a->sockets[i], &b->sockets[i]);
    return same;
}
