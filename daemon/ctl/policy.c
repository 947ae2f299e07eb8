/* SPDX-License-Identifier: MIT */
/*
 * policy.c - what the policy comes to for a user, and limits: shown, and set while the daemon runs.
 *
 * What is set here lasts until the daemon ends; only the configuration lasts longer.
 */
#include "daemon/base/log.h"
#include "daemon/config/schema.h"
#include "daemon/ctl/handlers.h"
#include "daemon/ctl/rows.h"
#include "daemon/peer/peer.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIDS_MAX 1024u
#define SETS_MAX 32u

/* ---- values ------------------------------------------------------------------------------ */

static json_t *scopes_json(uint64_t scopes) {
    static const char *const words[] = {"any", "peer", "uid"};
    json_t *list = json_array();
    for (unsigned i = 0; i < 3; i++)
        if (scopes & 1u << i)
            json_array_append_new(list, json_string(words[i]));
    return list;
}

static json_t *list_json(const struct rule_list *list) {
    json_t *out = json_array();
    if (!list)
        json_array_append_new(out, json_string("*"));
    for (unsigned i = 0; list && i < list->count; i++)
        json_array_append_new(out, json_string(list->text[i]));
    return out;
}

static json_t *value_json(enum rule_key key, const struct policy_value *v) {
    switch (rule_keys[key].kind) {
    case RULE_BOOL:
        return json_boolean(v->number);
    case RULE_WORD_ADMIN:
        return json_string(rule_admin_word((enum rule_admin)v->number));
    case RULE_WORDS_SCOPES:
        return scopes_json(v->number);
    case RULE_LETTERS:
        return rows_rights(v->number, "");
    case RULE_LIST:
        return list_json(v->list);
    default:
        return v->number == UINT64_MAX && rule_keys[key].kind == RULE_NUMBER
                   ? json_null()
                   : json_integer((json_int_t)v->number);
    }
}

static json_t *place_json(const struct policy_value *v, const char *otherwise) {
    char place[300];
    return json_string(v->rule ? policy_place(v, place, sizeof(place)) : otherwise);
}

/* The setting that says it for all users. */
static const char *limit_setting(enum rule_key key, char *out, size_t size) {
    snprintf(out, size, "limits.%s", rule_keys[key].name);
    return out;
}

/* The limit that holds, whether a rule or a setting says it; derived ones as they were derived. */
static uint64_t limit_number(const struct config *own, const struct quota_limits *q,
                             enum rule_key key) {
    char name[80];
    enum quota_resource of;
    bool session;
    if (quota_find_key(limit_setting(key, name, sizeof(name)), &of, &session))
        return session ? q->session[of] : q->uid[of];
    struct config copy = *own;
    return *setting_number(setting_find(name), &copy);
}

/* What the user has of what the limit is of; UINT64_MAX: that is a session's, or not counted. */
static uint64_t limit_used(const struct quota_account *a, enum rule_key key) {
    char name[80];
    enum quota_resource of;
    bool session;
    if (!quota_find_key(limit_setting(key, name, sizeof(name)), &of, &session) || session)
        return UINT64_MAX;
    return a ? a->used[of] : 0;
}

/* ---- of whom ----------------------------------------------------------------------------- */

struct subject {
    struct policy_who who;
    gid_t gids[GIDS_MAX];
};

/* "100,27": the groups of the user that is asked for; the caller knows them, this daemon would have
 * to ask a name service. */
static int parse_gids(struct subject *s, const char *text, struct error *err) {
    while (text && *text) {
        char *end;
        unsigned long gid = strtoul(text, &end, 10);
        if (end == text || (*end && *end != ',') || gid > UINT32_MAX || s->who.ngids == GIDS_MAX)
            return error_set(err, RDMAD_E_INVAL, "gids must be group ids separated by commas");
        s->gids[s->who.ngids++] = (gid_t)gid;
        text = *end ? end + 1 : end;
    }
    return 0;
}

/* The caller itself unless params name a uid. */
static int find_subject(const struct ctl_call *call, const json_t *params, struct subject *s,
                        struct error *err) {
    const struct policy_who *caller = &ctl_caller(call)->who;
    const char *socket = rpc_text(params, "socket");
    bool named = json_object_get(params, "uid") != NULL;
    uid_t uid = named ? (uid_t)rpc_uint(params, "uid") : caller->uid;
    *s = (struct subject){.who = {.uid = uid, .socket = socket ? socket : ""}};
    if ((uid != caller->uid || socket) && !ctl_sees_all(call))
        return error_set(err, RDMAD_E_PERM,
                         "you are uid %u and may see your own policy only: another's needs admin "
                         "\"all\"",
                         (unsigned)caller->uid);
    uint32_t tenant;
    if (socket && rows_find_tenant(ctl_state(call), socket, &tenant, err))
        return err->code;
    s->who.gids = s->gids;
    if (rpc_text(params, "gids") && ctl_sees_all(call))
        return parse_gids(s, rpc_text(params, "gids"), err);
    if (uid == caller->uid) {
        s->who.gids = caller->gids;
        s->who.ngids = caller->ngids;
    }
    return 0;
}

static void policy_rows(struct ctl_call *call, const struct subject *s, json_t *rows) {
    const struct state *st = ctl_state(call);
    struct user_policy u;
    struct config own;
    struct quota_limits limits;
    policy_user(st->policy, &s->who, &u);
    policy_settings(&u, st->config, &own);
    if (!policy_limits(&u, st->config, &limits))
        limits = st->quota.limits;
    for (unsigned k = 0; k < RULE_KEYS; k++) {
        enum rule_key key = (enum rule_key)k;
        bool limit = key >= RULE_LIMITS;
        if (!(rule_keys[key].whose & RULE_OF_USER))
            continue;
        char name[80];
        snprintf(name, sizeof(name), "%s%s", limit ? "limits." : "", rule_keys[key].name);
        json_t *value = limit ? json_integer((json_int_t)limit_number(&own, &limits, key))
                              : value_json(key, &u.value[key]);
        json_array_append_new(rows,
                              json_pack("{s:s, s:o, s:o}", "key", name, "value", value, "from",
                                        place_json(&u.value[key], limit ? "settings" : "default")));
    }
}

void ctl_policy_show(struct ctl_call *call, const json_t *params) {
    struct subject s;
    struct error why;
    if (find_subject(call, params, &s, &why)) {
        ctl_fail(call, &why);
        return;
    }
    json_t *rows = json_array();
    policy_rows(call, &s, rows);
    ctl_reply(call, json_pack("{s:I, s:s, s:o}", "uid", (json_int_t)s.who.uid, "socket",
                              s.who.socket, "policy", rows));
}

/* ---- limit show -------------------------------------------------------------------------- */

static bool is_limit(enum rule_key key) {
    return rule_keys[key].kind == RULE_NUMBER || rule_keys[key].kind == RULE_SIGNED;
}

static json_t *limit_row(const char *who, enum rule_key key, uint64_t value, uint64_t used,
                         json_t *from) {
    bool none = value == UINT64_MAX && rule_keys[key].kind == RULE_NUMBER;
    return json_pack("{s:s, s:s, s:o, s:o, s:o}", "who", who, "key", rule_keys[key].name, "value",
                     none ? json_null() : json_integer((json_int_t)value), "used",
                     used == UINT64_MAX ? json_null() : json_integer((json_int_t)used), "from",
                     from);
}

/* groups: of a session of the user, if there is one. */
static void limits_of_user(const struct state *st, struct user_id user, json_t *rows) {
    const char *tenant = state_tenant(st, user.tenant);
    struct policy_who who = {.uid = user.uid, .socket = tenant};
    struct user_policy u;
    struct config own;
    struct quota_limits limits;
    char name[24 + RDMAD_NAME_MAX];
    list_for_each (node, &st->sessions) {
        const struct session *s = list_entry(node, struct session, node);
        if (user_id_same(session_user_id(s), user))
            who = s->who;
    }
    policy_user(st->policy, &who, &u);
    policy_settings(&u, st->config, &own);
    if (!policy_limits(&u, st->config, &limits))
        limits = st->quota.limits;
    const struct quota_account *a = quota_find(&st->quota, user.uid, user.tenant);
    snprintf(name, sizeof(name), "uid:%u%s%s", (unsigned)user.uid, *tenant ? "@" : "", tenant);
    for (unsigned k = 0; k < RULE_KEYS; k++) {
        enum rule_key key = (enum rule_key)k;
        bool limit = key >= RULE_LIMITS;
        if (!is_limit(key) || !(rule_keys[key].whose & RULE_OF_USER))
            continue;
        uint64_t value = limit ? limit_number(&own, &limits, key) : u.value[key].number;
        json_array_append_new(rows,
                              limit_row(name, key, value, limit_used(a, key),
                                        place_json(&u.value[key], limit ? "settings" : "default")));
    }
}

/* What the peers of that name have of what the limit is of; UINT64_MAX: it is not counted. */
static uint64_t limit_used_by_peer(const struct peer_use *use, enum rule_key key) {
    switch (key) {
    case RULE_REGISTERED_BYTES:
        return use->registered_bytes;
    case RULE_ATTACHES:
        return use->attaches;
    case RULE_NOTIFICATIONS:
        return use->notifications;
    case RULE_CHANNELS:
        return use->channels;
    case RULE_CONNECTIONS:
        return use->connections;
    default:
        return UINT64_MAX;
    }
}

/* Each name that fits a pattern has its limits for itself, so they have no one number of what is
 * used. */
static void limits_of_peer(const struct state *st, const char *peer, json_t *rows) {
    const char *proven = !strcmp(peer, RULE_UNNAMED) ? "" : peer;
    const bool many = rule_pattern_is_beginning(peer);
    const struct peer_policy *p = policy_peer(st->policy, proven);
    struct peer_use use;
    peers_use(st->peers, proven, &use);
    char name[RDMAD_NAME_MAX + 8];
    snprintf(name, sizeof(name), "peer:%s", peer);
    for (unsigned k = 0; k < RULE_KEYS; k++) {
        enum rule_key key = (enum rule_key)k;
        if (is_limit(key) && (rule_keys[key].whose & RULE_OF_PEER))
            json_array_append_new(rows, limit_row(name, key, p->value[key].number,
                                                  many ? UINT64_MAX : limit_used_by_peer(&use, key),
                                                  place_json(&p->value[key], "default")));
    }
}

struct target {
    bool peer;
    struct user_id user;
    char name[RDMAD_NAME_MAX + 2]; /* of the peer, or of the user's tenant */
};

static int parse_tenant(const struct state *st, const char *name, struct target *out,
                        struct error *err) {
    snprintf(out->name, sizeof(out->name), "%s", name);
    return rows_find_tenant(st, name, &out->user.tenant, err);
}

/* "uid:1000", "uid:1000@TENANT" or "peer:NAME" */
static int parse_target(const struct state *st, const char *text, struct target *out,
                        struct error *err) {
    char *end = NULL;
    *out = (struct target){0};
    if (!strncmp(text, "uid:", 4) && text[4] >= '0' && text[4] <= '9') {
        unsigned long uid = strtoul(text + 4, &end, 10);
        out->user.uid = (uid_t)uid;
        if (*end == '@' && uid < UINT32_MAX)
            return parse_tenant(st, end + 1, out, err);
        if (!*end && uid < UINT32_MAX)
            return 0;
    } else if (!strncmp(text, "peer:", 5) && rule_pattern_ok(text + 5)) {
        out->peer = true;
        snprintf(out->name, sizeof(out->name), "%s", text + 5);
        return 0;
    }
    return error_set(
        err, RDMAD_E_INVAL,
        "\"%.80s\" names nobody: write uid:N, uid:N@TENANT, or peer:NAME with a node's name, the "
        "beginning of some and a '*', or %s",
        text, RULE_UNNAMED);
}

/* More than a rate that it owes. */
static bool has_something(const struct quota_account *a) {
    return a->refs || a->lies;
}

/* Of a uid all that it is by tenants' sockets, too, as far as that has something. */
static void limits_of_uid(const struct state *st, uid_t uid, json_t *rows) {
    limits_of_user(st, (struct user_id){.uid = uid}, rows);
    list_for_each (node, &st->quota.uids) {
        const struct quota_account *a = list_entry(node, struct quota_account, node);
        if (a->uid == uid && a->tenant && has_something(a))
            limits_of_user(st, (struct user_id){.uid = uid, .tenant = a->tenant}, rows);
    }
}

/* Every user that has something, or for whom something was set. */
static void limits_of_all(const struct ctl_call *call, json_t *rows) {
    const struct state *st = ctl_state(call);
    const struct rules *live = policy_live(st->policy);
    list_for_each (node, &st->quota.uids) {
        const struct quota_account *a = list_entry(node, struct quota_account, node);
        if (has_something(a) && json_array_size(rows) < CTL_MAX_ROWS)
            limits_of_user(st, (struct user_id){.uid = a->uid, .tenant = a->tenant}, rows);
    }
    for (unsigned i = 0; i < live->nusers && json_array_size(rows) < CTL_MAX_ROWS; i++) {
        const struct rule *r = live->users[i];
        const struct user_id user = {.uid = r->uid, .tenant = rows_tenant_number(st, r->socket)};
        const struct quota_account *a = quota_find(&st->quota, user.uid, user.tenant);
        if (!a || !has_something(a))
            limits_of_user(st, user, rows);
    }
    for (unsigned i = 0; i < live->npeers && json_array_size(rows) < CTL_MAX_ROWS; i++)
        limits_of_peer(st, live->peers[i]->peer, rows);
}

/* A peer's share, of which somebody has said something. */
static bool is_share_of_peer(const json_t *row) {
    static const char *const keys[] = {"weight", "priority", "bytes_per_second", "ops_per_second"};
    const char *who = json_string_value(json_object_get(row, "who"));
    const char *key = json_string_value(json_object_get(row, "key"));
    const char *from = json_string_value(json_object_get(row, "from"));
    bool share = false;
    for (unsigned i = 0; key && i < sizeof(keys) / sizeof(keys[0]); i++)
        share |= !strcmp(key, keys[i]);
    return share && who && from && !strncmp(who, "peer:", 5) && strcmp(from, "default") != 0;
}

/* The name of a fabric whose device serves peers by itself; NULL: there is none. */
static const char *fabric_without_shares(const struct state *st) {
    const struct fabric_ops *f;
    for (unsigned i = 0; (f = plane_fabric(st->plane, i)); i++)
        if (!f->peer_share)
            return f->name;
    return NULL;
}

/* Limits that are set, and that this daemon cannot hold, are not shown without a word. */
static void reply_limits(struct ctl_call *call, json_t *reply, const json_t *rows) {
    const char *name = fabric_without_shares(ctl_state(call));
    size_t i;
    json_t *row;
    bool shares = false;
    json_array_foreach((json_t *)rows, i, row) shares |= is_share_of_peer(row);
    if (name && shares) {
        char note[RDMAD_TEXT_MAX + 1];
        snprintf(note, sizeof(note),
                 "over %s the device serves peers, and nobody holds their shares there: a peer's "
                 "weight, priority, bytes_per_second and ops_per_second are kept only where it "
                 "comes over tcp",
                 name);
        json_object_set_new(reply, "note", json_string(note));
    }
    ctl_reply(call, reply);
}

void ctl_limit_show(struct ctl_call *call, const json_t *params) {
    const struct state *st = ctl_state(call);
    const char *who = rpc_text(params, "who");
    uid_t own = ctl_caller(call)->who.uid;
    struct target t = {.user.uid = own};
    struct error why;
    if (who && parse_target(st, who, &t, &why)) {
        ctl_fail(call, &why);
        return;
    }
    if (!ctl_sees_all(call) && (t.peer || t.user.tenant || t.user.uid != own)) {
        error_set(&why, RDMAD_E_PERM,
                  "you are uid %u and may see your own limits only: others' need admin \"all\"",
                  (unsigned)own);
        ctl_fail(call, &why);
        return;
    }
    json_t *rows = json_array();
    if (t.peer)
        limits_of_peer(st, t.name, rows);
    else if (t.user.tenant || !ctl_sees_all(call))
        limits_of_user(st, t.user, rows);
    else if (who)
        limits_of_uid(st, t.user.uid, rows);
    else
        limits_of_all(call, rows);
    reply_limits(call, json_pack("{s:o}", "limits", rows), rows);
}

/* ---- limit set --------------------------------------------------------------------------- */

struct limit_sets {
    struct {
        enum rule_key key;
        int64_t value;
    } set[SETS_MAX];
    unsigned count;
};

static int unknown_limit(const char *word, unsigned whose, struct error *err) {
    const char *of = whose == RULE_OF_PEER ? "peer" : "user";
    return error_set(err, RDMAD_E_INVAL,
                     "no limit \"%.40s\" of a %s; rdmactl limit show has the names of all", word,
                     of);
}

/* One KEY=VALUE, which is changed. */
static int parse_set(char *word, unsigned whose, struct limit_sets *out, struct error *err) {
    char *equals = strchr(word, '='), *end = NULL;
    if (!equals)
        return error_set(err, RDMAD_E_INVAL, "\"%.80s\" is not KEY=VALUE", word);
    *equals = '\0';
    const char *name = strncmp(word, "limits.", 7) ? word : word + 7;
    enum rule_key key = rule_key_find(name, whose, false);
    if (key == RULE_KEYS)
        key = rule_key_find(name, whose, true);
    if (key == RULE_KEYS || !is_limit(key))
        return unknown_limit(word, whose, err);
    long long value = strtoll(equals + 1, &end, 10);
    if (end == equals + 1 || *end)
        return error_set(err, RDMAD_E_INVAL, "%s=%.40s: must be an integer", word, equals + 1);
    struct error why;
    if (rule_check_number(key, value, &why))
        return error_set(err, RDMAD_E_INVAL, "%s", why.text);
    if (out->count == SETS_MAX)
        return error_set(err, RDMAD_E_INVAL, "at most %u limits are set at a time", SETS_MAX);
    out->set[out->count].key = key;
    out->set[out->count++].value = value;
    return 0;
}

static int parse_sets(const char *text, unsigned whose, struct limit_sets *out, struct error *err) {
    char copy[2048], *rest = NULL;
    *out = (struct limit_sets){0};
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        int rc = parse_set(word, whose, out, err);
        if (rc)
            return rc;
    }
    return out->count ? 0 : error_set(err, RDMAD_E_INVAL, "KEY=VALUE is missing");
}

static int set_limit(struct policy *p, const struct target *t, enum rule_key key, int64_t value,
                     struct error *err) {
    return t->user.tenant ? policy_set_tenant(p, t->user.uid, t->name, key, value, err)
                          : policy_set(p, t->user.uid, t->peer ? t->name : NULL, key, value, err);
}

/* All that was asked, or nothing. */
void ctl_limit_set(struct ctl_call *call, const json_t *params) {
    struct state *st = ctl_state(call);
    struct limit_sets sets;
    struct target t;
    struct error why;
    int rc = parse_target(st, rpc_text(params, "who"), &t, &why);
    if (!rc)
        rc = parse_sets(rpc_text(params, "set"), t.peer ? RULE_OF_PEER : RULE_OF_USER, &sets, &why);
    /* A first that succeeds has made the rule, so the others do. */
    for (unsigned i = 0; !rc && i < sets.count; i++)
        rc = set_limit(st->policy, &t, sets.set[i].key, sets.set[i].value, &why);
    if (rc) {
        ctl_fail(call, &why);
        return;
    }
    LOG(NOTICE, ("limits of %s were set until rdmad ends: %s", rpc_text(params, "who"),
                 rpc_text(params, "set")));
    sessions_apply_policy(st);
    peers_apply_policy(st->peers);
    json_t *rows = json_array();
    if (t.peer)
        limits_of_peer(st, t.name, rows);
    else if (t.user.tenant)
        limits_of_user(st, t.user, rows);
    else
        limits_of_uid(st, t.user.uid, rows);
    reply_limits(call, json_pack("{s:o, s:s}", "limits", rows, "lasts", "until rdmad ends"), rows);
}
