/* SPDX-License-Identifier: MIT */
/*
 * policy.c - what the rules come to for one user or one peer.
 *
 * Rules are asked from the first to the last, those of run time behind those of the files, and each
 * that matches puts the keys that it sets in place of what was there.
 */
#include "daemon/state/policy.h"
#include "common/uri.h"
#include "daemon/config/schema.h"
#include "daemon/state/limits.h"
#include <grp.h>
#include <inttypes.h>
#include <rdmad/abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ADMIN_GROUP "rdmad"
#define SCOPES_ALL (1u << RDMAD_SCOPE_ANY | 1u << RDMAD_SCOPE_PEER | 1u << RDMAD_SCOPE_UID)
static const char live_file[] = "set at run time";

struct policy {
    const struct rules *rules; /* of the files; NULL: none */
    struct rules *live;        /* set at run time */
    gid_t admins;              /* (gid_t)-1: there is no such group */
    struct peer_policy *peer;  /* what policy_peer returned last */
};

struct policy *policy_new(const struct config *c) {
    struct policy *p = calloc(1, sizeof(*p));
    struct peer_policy *peer = calloc(1, sizeof(*peer));
    struct rules *live = rules_new();
    if (!p || !peer || !live) {
        free(p);
        free(peer);
        rules_free(live);
        return NULL;
    }
    const struct group *admins = getgrnam(ADMIN_GROUP);
    *p = (struct policy){.rules = c->rules,
                         .live = live,
                         .admins = admins ? admins->gr_gid : (gid_t)-1,
                         .peer = peer};
    return p;
}

void policy_reload(struct policy *p, const struct config *c) {
    p->rules = c->rules;
}

void policy_free(struct policy *p) {
    if (!p)
        return;
    rules_free(p->live);
    free(p->peer);
    free(p);
}

/* ---- what matches ------------------------------------------------------------------------ */

static bool has_gid(const struct policy_who *who, gid_t gid) {
    for (unsigned i = 0; i < who->ngids; i++)
        if (who->gids[i] == gid)
            return true;
    return false;
}

static bool fits_user(const struct rule *r, const struct policy_who *who) {
    return (!r->by_uid || r->uid == who->uid) && (!r->by_gid || has_gid(who, r->gid)) &&
           (!r->by_socket || !strcmp(r->socket, who->socket));
}

/* pattern: a name, the beginning of one and a '*', or RULE_UNNAMED. */
static bool fits_pattern(const char *pattern, const char *name) {
    if (!strcmp(pattern, RULE_UNNAMED))
        return !*name;
    if (rule_pattern_is_beginning(pattern))
        return !strncmp(pattern, name, strlen(pattern) - 1);
    return !strcmp(pattern, name);
}

static void rule_apply(const struct rule *r, struct policy_value *out) { /* RULE_KEYS of them */
    for (unsigned k = 0; k < RULE_KEYS; k++) {
        const struct rule_value *v = &r->value[k];
        if (v->set)
            out[k] = (struct policy_value){.number = v->number,
                                           .list = rule_keys[k].kind == RULE_LIST ? &v->list : NULL,
                                           .rule = r,
                                           .line = v->line};
    }
}

const char *policy_place(const struct policy_value *v, char *buf, size_t size) {
    if (!v->rule)
        snprintf(buf, size, "default");
    else if (!v->line)
        snprintf(buf, size, "%s", live_file);
    else
        snprintf(buf, size, "%s:%u", v->rule->file, v->line);
    return buf;
}

static struct plane_share share_of(const struct policy_value v[RULE_KEYS]) {
    return (struct plane_share){.weight = (uint32_t)v[RULE_WEIGHT].number,
                                .bytes_per_second = v[RULE_BYTES_PER_SECOND].number,
                                .ops_per_second = v[RULE_OPS_PER_SECOND].number,
                                .priority = (int)(int64_t)v[RULE_PRIORITY].number};
}

/* ---- users ------------------------------------------------------------------------------- */

/* Who may always administer: they can change the rules, too. */
static bool is_master(const struct policy_who *who) {
    return !*who->socket && (who->uid == 0 || who->uid == geteuid());
}

static void user_defaults(const struct policy *p, const struct policy_who *who,
                          struct user_policy *u) {
    bool admin = p && p->admins != (gid_t)-1 && !*who->socket && has_gid(who, p->admins);
    memset(u, 0, sizeof(*u));
    u->uid = who->uid;
    u->value[RULE_CONNECT].number = 1;
    u->value[RULE_ADMIN].number = admin ? ADMIN_ACT : ADMIN_OWN;
    u->value[RULE_HUGE_PAGES].number = 1;
    u->value[RULE_SCOPES].number = SCOPES_ALL;
    u->value[RULE_GRANT_RIGHTS].number = u->value[RULE_ATTACH_RIGHTS].number = RDMAD_RIGHTS_ALL;
    u->value[RULE_WEIGHT].number = PLANE_WEIGHT_DEFAULT;
}

void policy_user(const struct policy *p, const struct policy_who *who, struct user_policy *out) {
    user_defaults(p, who, out);
    for (unsigned i = 0; p && p->rules && i < p->rules->nusers; i++)
        if (fits_user(p->rules->users[i], who))
            rule_apply(p->rules->users[i], out->value);
    /* What was set at run time of a tenant's user counts before what was set of all with its uid.
     */
    for (unsigned by_socket = 0; by_socket < 2; by_socket++)
        for (unsigned i = 0; p && i < p->live->nusers; i++)
            if (p->live->users[i]->by_socket == by_socket && fits_user(p->live->users[i], who))
                rule_apply(p->live->users[i], out->value);
    if (is_master(who) && policy_admin(out) != ADMIN_ACT)
        out->value[RULE_ADMIN] = (struct policy_value){.number = ADMIN_ACT};
}

bool policy_group_would_do(const struct policy *p, const struct policy_who *who,
                           const struct user_policy *u) {
    return p && p->admins != (gid_t)-1 && !*who->socket && !u->value[RULE_ADMIN].rule;
}

struct plane_share policy_user_share(const struct user_policy *u) {
    return share_of(u->value);
}

static int policy_refuse(const struct user_policy *u, enum rule_key key, const char *what,
                         struct error *err) {
    char place[300];
    return error_set(err, RDMAD_E_PERM, "uid %u may not %s: \"%s\" of the policy, %.200s",
                     (unsigned)u->uid, what, rule_keys[key].name,
                     policy_place(&u->value[key], place, sizeof(place)));
}

int policy_check_connect(const struct user_policy *u, struct error *err) {
    return policy_allows(u, RULE_CONNECT) ? 0 : policy_refuse(u, RULE_CONNECT, "use rdmad", err);
}

int policy_check_huge_pages(const struct user_policy *u, struct error *err) {
    return policy_allows(u, RULE_HUGE_PAGES)
               ? 0
               : policy_refuse(u, RULE_HUGE_PAGES, "have pools of huge pages", err);
}

static int policy_check_rights(const struct user_policy *u, enum rule_key key, const char *verb,
                               uint32_t rights, struct error *err) {
    static const char *const names[] = {"read", "write", "atomic operations", "delegate"};
    uint32_t more = rights & ~(uint32_t)u->value[key].number & RDMAD_RIGHTS_ALL;
    char what[80];
    if (!more)
        return 0;
    snprintf(what, sizeof(what), "%s the right to %s", verb, names[__builtin_ctz(more)]);
    return policy_refuse(u, key, what, err);
}

int policy_check_grant(const struct user_policy *u, uint32_t scope, uint32_t rights,
                       struct error *err) {
    static const char *const names[] = {[RDMAD_SCOPE_ANY] = "share with everybody (scope any)",
                                        [RDMAD_SCOPE_PEER] = "share with a peer (scope peer)",
                                        [RDMAD_SCOPE_UID] = "share with a user (scope uid)"};
    if (scope <= RDMAD_SCOPE_UID && !(u->value[RULE_SCOPES].number & 1u << scope))
        return policy_refuse(u, RULE_SCOPES, names[scope], err);
    return policy_check_rights(u, RULE_GRANT_RIGHTS, "grant", rights, err);
}

int policy_check_attach(const struct user_policy *u, uint32_t rights, struct error *err) {
    return policy_check_rights(u, RULE_ATTACH_RIGHTS, "attach with", rights, err);
}

static struct policy_prefixes prefixes_of(const struct policy_value *v) {
    if (!v->list)
        return (struct policy_prefixes){.any = true};
    return (struct policy_prefixes){.list = (const char *const *)v->list->text,
                                    .count = v->list->count};
}

bool policy_prefixes_admit(const struct policy_prefixes *p, const char *name) {
    if (p->any)
        return true;
    for (unsigned i = 0; i < p->count; i++)
        if (!strncmp(name, p->list[i], strlen(p->list[i])))
            return true;
    return false;
}

static bool admits(const struct policy_value *v, const char *name) {
    const struct policy_prefixes p = prefixes_of(v);
    return policy_prefixes_admit(&p, name);
}

int policy_check_publish(const struct user_policy *u, const char *name, struct error *err) {
    char what[RDMAD_NAME_MAX + 40];
    if (!*name || admits(&u->value[RULE_NAMES], name))
        return 0;
    snprintf(what, sizeof(what), "publish the name \"%s\"", name);
    return policy_refuse(u, RULE_NAMES, what, err);
}

bool policy_reaches(const struct user_policy *u, const char *name) {
    return admits(&u->value[RULE_SERVICES], name);
}

int policy_check_reach(const struct user_policy *u, const char *name, struct error *err) {
    char what[RDMAD_NAME_MAX + 40];
    if (policy_reaches(u, name))
        return 0;
    snprintf(what, sizeof(what), "reach the name \"%s\"", name);
    return policy_refuse(u, RULE_SERVICES, what, err);
}

bool policy_reaches_peers(const struct user_policy *u) {
    const struct rule_list *list = u->value[RULE_PEERS].list;
    return !list || list->count;
}

int policy_check_peer(const struct user_policy *u, const char *peer, struct error *err) {
    const struct rule_list *list = u->value[RULE_PEERS].list;
    char what[RDMAD_HOST_MAX + 40];
    for (unsigned i = 0; list && i < list->count; i++)
        if (fits_pattern(list->text[i], peer))
            return 0;
    if (!list)
        return 0;
    snprintf(what, sizeof(what), "reach the daemon \"%s\"", peer);
    return policy_refuse(u, RULE_PEERS, what, err);
}

void policy_settings(const struct user_policy *u, const struct config *c, struct config *out) {
    *out = *c;
    for (unsigned k = RULE_LIMITS; k < RULE_KEYS; k++) {
        char key[80];
        if (!u->value[k].rule)
            continue;
        snprintf(key, sizeof(key), "limits.%s", rule_keys[k].name);
        *setting_number(setting_find(key), out) = u->value[k].number;
    }
}

bool policy_limits(const struct user_policy *u, const struct config *c, struct quota_limits *out) {
    struct config own;
    bool any = false;
    for (unsigned k = RULE_LIMITS; k < RULE_KEYS; k++)
        any |= u->value[k].rule != NULL;
    if (!any)
        return false;
    policy_settings(u, c, &own);
    limits_of(&own, out);
    return true;
}

/* ---- peers ------------------------------------------------------------------------------- */

static void peer_defaults(struct peer_policy *out) {
    memset(out, 0, sizeof(*out));
    out->value[RULE_DIALS].number = out->value[RULE_DIALLED].number = 1;
    out->value[RULE_ATTACH].number = 1;
    out->value[RULE_REGISTERED_BYTES].number = UINT64_MAX;
    out->value[RULE_ATTACHES].number = out->value[RULE_NOTIFICATIONS].number = UINT64_MAX;
    out->value[RULE_CHANNELS].number = out->value[RULE_CONNECTIONS].number = UINT64_MAX;
    out->value[RULE_WEIGHT].number = PLANE_WEIGHT_DEFAULT;
}

static void peer_fill(struct peer_policy *out) {
    out->dials = out->value[RULE_DIALS].number != 0;
    out->dialled = out->value[RULE_DIALLED].number != 0;
    out->attach = out->value[RULE_ATTACH].number != 0;
    out->names = prefixes_of(&out->value[RULE_NAMES]);
    out->registered_bytes = out->value[RULE_REGISTERED_BYTES].number;
    out->attaches = out->value[RULE_ATTACHES].number;
    out->notifications = out->value[RULE_NOTIFICATIONS].number;
    out->channels = out->value[RULE_CHANNELS].number;
    out->connections = out->value[RULE_CONNECTIONS].number;
    out->messages_per_second = out->value[RULE_MESSAGES_PER_SECOND].number;
    out->questions_per_second = out->value[RULE_QUESTIONS_PER_SECOND].number;
    out->share = share_of(out->value);
}

const struct peer_policy *policy_peer(const struct policy *p, const char *name) {
    static struct peer_policy all;
    struct peer_policy *out = p ? p->peer : &all;
    peer_defaults(out);
    const struct rules *const both[] = {p ? p->rules : NULL, p ? p->live : NULL};
    for (unsigned b = 0; b < 2; b++)
        for (unsigned i = 0; both[b] && i < both[b]->npeers; i++)
            if (fits_pattern(both[b]->peers[i]->peer, name))
                rule_apply(both[b]->peers[i], out->value);
    peer_fill(out);
    return out;
}

/* ---- at run time ------------------------------------------------------------------------- */

const struct rules *policy_live(const struct policy *p) {
    return p->live;
}

/* Whose it is: a peer's, or a uid's, by all sockets if tenant is "". */
struct whose {
    uid_t uid;
    const char *tenant, *peer;
};

static struct rule *live_rule(struct policy *p, const struct whose *whose) {
    struct rules *live = p->live;
    const char *peer = whose->peer;
    for (unsigned i = 0; !peer && i < live->nusers; i++)
        if (live->users[i]->uid == whose->uid && !strcmp(live->users[i]->socket, whose->tenant))
            return live->users[i];
    for (unsigned i = 0; peer && i < live->npeers; i++)
        if (!strcmp(live->peers[i]->peer, peer))
            return live->peers[i];
    if ((peer ? live->npeers : live->nusers) == RULES_MAX)
        return NULL;
    struct rule *r = rules_add(live, peer != NULL, live_file);
    if (r && peer) {
        snprintf(r->peer, sizeof(r->peer), "%s", peer);
    } else if (r) {
        r->by_uid = true;
        r->uid = whose->uid;
        r->by_socket = *whose->tenant;
        snprintf(r->socket, sizeof(r->socket), "%s", whose->tenant);
    }
    return r;
}

/* There is no rule for it, and there are so many of its kind. */
static int live_fail(uint32_t rules, struct error *err) {
    if (rules < RULES_MAX)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a limit");
    return error_set(err, RDMAD_E_LIMIT,
                     "more than %u users or peers have limits that were set at run time; write "
                     "them into the configuration and reload it",
                     RULES_MAX);
}

static int set(struct policy *p, const struct whose *whose, enum rule_key key, int64_t value,
               struct error *err) {
    const char *peer = whose->peer;
    const struct rule_key_spec *spec = &rule_keys[key];
    struct error why;
    if (!(spec->whose & (peer ? RULE_OF_PEER : RULE_OF_USER)) ||
        (spec->kind != RULE_NUMBER && spec->kind != RULE_SIGNED))
        return error_set(err, RDMAD_E_INVAL, "%s of a %s cannot be set at run time", spec->name,
                         peer ? "peer" : "user");
    if (rule_check_number(key, value, &why))
        return error_set(err, RDMAD_E_INVAL, "%s", why.text);
    struct rule *r = live_rule(p, whose);
    if (!r)
        return live_fail(peer ? p->live->npeers : p->live->nusers, err);
    r->value[key] = (struct rule_value){.set = true, .number = (uint64_t)value};
    return 0;
}

int policy_set(struct policy *p, uid_t uid, const char *peer, enum rule_key key, int64_t value,
               struct error *err) {
    return set(p, &(struct whose){.uid = uid, .tenant = "", .peer = peer}, key, value, err);
}

int policy_set_tenant(struct policy *p, uid_t uid, const char *tenant, enum rule_key key,
                      int64_t value, struct error *err) {
    return set(p, &(struct whose){.uid = uid, .tenant = tenant}, key, value, err);
}
