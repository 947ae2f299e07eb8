/* SPDX-License-Identifier: MIT */
/*
 * parse_rules.c - from the sections "policy" and "sockets" to rules.
 *
 * Names of users and groups are looked up here, so what a rule says of a user that this machine
 * does not have is an error with its place, and no rule that silently matches nobody.
 */
#include "daemon/config/parse_rules.h"
#include "common/uri.h"
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <rdmad/abi.h>
#include <stdlib.h>
#include <string.h>

#define ID_MAX (UINT32_MAX - 1) /* the largest is nobody's: it means "unchanged" */

static int rules_no_memory(const struct parse *p) {
    return error_set(p->err, RDMAD_E_NOMEM, "%s: out of memory for its rules", p->name);
}

/* ---- values ------------------------------------------------------------------------------ */

static int parse_id(const struct parse *p, const struct text_path *at, const char *key,
                    const json_t *value, uint32_t *out) {
    json_int_t n = json_integer_value(value);
    struct error e;
    if (!json_is_integer(value))
        return parse_wrong_type(p, at, key, "a number; a name goes into \"user\" or \"group\"",
                                value);
    *out = (uint32_t)n;
    if (n >= 0 && n <= (json_int_t)ID_MAX)
        return 0;
    error_set(&e, RDMAD_E_CONFIG, "%s is %" JSON_INTEGER_FORMAT ", must be from 0 to %" PRIu32, key,
              n, ID_MAX);
    return parse_fail_value(p, at, e.text);
}

static int parse_user(const struct parse *p, const struct text_path *at, const json_t *value,
                      uid_t *out) {
    struct error e;
    if (!json_is_string(value))
        return parse_wrong_type(p, at, "user", "a text", value);
    const struct passwd *user = getpwnam(json_string_value(value));
    if (user) {
        *out = user->pw_uid;
        return 0;
    }
    error_set(&e, RDMAD_E_CONFIG, "user \"%.80s\": this machine has no such user",
              json_string_value(value));
    return parse_fail_value(p, at, e.text);
}

static int parse_group(const struct parse *p, const struct text_path *at, const json_t *value,
                       gid_t *out) {
    struct error e;
    if (!json_is_string(value))
        return parse_wrong_type(p, at, "group", "a text", value);
    const struct group *group = getgrnam(json_string_value(value));
    if (group) {
        *out = group->gr_gid;
        return 0;
    }
    error_set(&e, RDMAD_E_CONFIG, "group \"%.80s\": this machine has no such group",
              json_string_value(value));
    return parse_fail_value(p, at, e.text);
}

/* A name of ours: what a tenant or a peer is called. */
static int parse_name(const struct parse *p, const struct text_path *at, const char *key,
                      const json_t *value, char out[RDMAD_NAME_MAX + 1]) {
    struct error e;
    if (!json_is_string(value))
        return parse_wrong_type(p, at, key, "a text", value);
    const char *name = json_string_value(value);
    if (rdmad_name_ok(name)) {
        strcpy(out, name);
        return 0;
    }
    error_set(&e, RDMAD_E_CONFIG,
              "%s \"%.80s\": must be 1 to %d letters, digits, '.', '_' and '-', not starting with "
              "'.'",
              key, name, RDMAD_NAME_MAX);
    return parse_fail_value(p, at, e.text);
}

static int parse_pattern(const struct parse *p, const struct text_path *at, const char *key,
                         const json_t *value) {
    struct error e;
    if (!json_is_string(value))
        return parse_wrong_type(p, at, key, "a text", value);
    if (rule_pattern_ok(json_string_value(value)))
        return 0;
    error_set(&e, RDMAD_E_CONFIG,
              "%s \"%.80s\": must be a node's name, the beginning of one and a '*', or %s", key,
              json_string_value(value), RULE_UNNAMED);
    return parse_fail_value(p, at, e.text);
}

/* The beginning of a name; "" is that of every one. */
static int parse_prefix(const struct parse *p, const struct text_path *at, const char *key,
                        const json_t *value) {
    struct error e;
    if (!json_is_string(value))
        return parse_wrong_type(p, at, key, "a text", value);
    const char *text = json_string_value(value);
    if (!*text || rdmad_name_ok(text))
        return 0;
    error_set(&e, RDMAD_E_CONFIG, "%s \"%.80s\": no name begins so", key, text);
    return parse_fail_value(p, at, e.text);
}

static int parse_list(const struct parse *p, const struct text_path *at, enum rule_key key,
                      json_t *value, struct rule_list *out) {
    const char *name = rule_keys[key].name;
    if (!json_is_array(value))
        return parse_wrong_type(p, at, name, "a list, [\"...\", ...]", value);
    if (json_array_size(value) > RULE_LIST_MAX)
        return parse_fail_value(p, at, "the list has more than 256 entries");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *one = json_array_get(value, i);
        struct text_path here = text_path_index(at, i);
        int rc = key == RULE_PEERS ? parse_pattern(p, &here, name, one)
                                   : parse_prefix(p, &here, name, one);
        if (rc)
            return rc;
        if (rule_list_add(out, json_string_value(one)))
            return rules_no_memory(p);
    }
    return 0;
}

static int parse_scopes(const struct parse *p, const struct text_path *at, json_t *value,
                        uint64_t *out) {
    static const char *const words[] = {
        [RDMAD_SCOPE_ANY] = "any", [RDMAD_SCOPE_PEER] = "peer", [RDMAD_SCOPE_UID] = "uid"};
    if (!json_is_array(value))
        return parse_wrong_type(p, at, "scopes", "a list of \"any\", \"peer\" and \"uid\"", value);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *word = json_string_value(json_array_get(value, i));
        unsigned bit = 0;
        while (bit < 3 && word && strcmp(words[bit], word) != 0)
            bit++;
        struct text_path here = text_path_index(at, i);
        if (!word || bit == 3)
            return parse_fail_value(p, &here, "scopes may have \"any\", \"peer\" and \"uid\"");
        *out |= 1u << bit;
    }
    return 0;
}

static int parse_letters(const struct parse *p, const struct text_path *at, const char *key,
                         const json_t *value, uint64_t *out) {
    static const char letters[] = "rwad";
    struct error e;
    if (!json_is_string(value))
        return parse_wrong_type(p, at, key, "a text", value);
    for (const char *c = json_string_value(value); *c; c++) {
        const char *found = strchr(letters, *c);
        if (!found) {
            error_set(&e, RDMAD_E_CONFIG,
                      "%s \"%.20s\": may have r (read), w (write), a (atomic) and d (delegate)",
                      key, json_string_value(value));
            return parse_fail_value(p, at, e.text);
        }
        *out |= UINT64_C(1) << (found - letters);
    }
    return 0;
}

static int parse_number(const struct parse *p, const struct text_path *at, enum rule_key key,
                        const json_t *value, uint64_t *out) {
    struct error e;
    if (!json_is_integer(value))
        return parse_wrong_type(p, at, rule_keys[key].name, "an integer", value);
    if (rule_check_number(key, json_integer_value(value), &e))
        return parse_fail_value(p, at, e.text);
    *out = (uint64_t)json_integer_value(value);
    return 0;
}

static int parse_admin(const struct parse *p, const struct text_path *at, const json_t *value,
                       uint64_t *out) {
    int admin = json_is_string(value) ? rule_admin_of(json_string_value(value)) : -1;
    if (admin < 0)
        return parse_fail_value(p, at, "admin must be one of \"none\", \"own\", \"all\", \"act\"");
    *out = (uint64_t)admin;
    return 0;
}

static int parse_value(const struct parse *p, const struct text_path *at, enum rule_key key,
                       json_t *value, struct rule_value *out) {
    const struct rule_key_spec *spec = &rule_keys[key];
    size_t line, column;
    text_line(&p->text, text_locate(&p->text, at, true), &line, &column);
    *out = (struct rule_value){.set = true, .line = (unsigned)line};
    switch (spec->kind) {
    case RULE_BOOL:
        out->number = json_is_true(value);
        return json_is_boolean(value) ? 0
                                      : parse_wrong_type(p, at, spec->name, "true or false", value);
    case RULE_WORD_ADMIN:
        return parse_admin(p, at, value, &out->number);
    case RULE_WORDS_SCOPES:
        return parse_scopes(p, at, value, &out->number);
    case RULE_LETTERS:
        return parse_letters(p, at, spec->name, value, &out->number);
    case RULE_LIST:
        return parse_list(p, at, key, value, &out->list);
    default:
        return parse_number(p, at, key, value, &out->number);
    }
}

/* ---- whom a rule is about ---------------------------------------------------------------- */

static int match_user(const struct parse *p, const struct text_path *at, const char *key,
                      const json_t *value, struct rule *r) {
    if (!strcmp(key, "uid") || !strcmp(key, "user")) {
        if (r->by_uid)
            return parse_fail_key(p, at, "a rule has \"uid\" or \"user\", not both");
        r->by_uid = true;
        return key[1] == 'i' ? parse_id(p, at, key, value, &r->uid)
                             : parse_user(p, at, value, &r->uid);
    }
    if (!strcmp(key, "gid") || !strcmp(key, "group")) {
        if (r->by_gid)
            return parse_fail_key(p, at, "a rule has \"gid\" or \"group\", not both");
        r->by_gid = true;
        return key[1] == 'i' ? parse_id(p, at, key, value, &r->gid)
                             : parse_group(p, at, value, &r->gid);
    }
    if (!strcmp(key, "socket")) {
        r->by_socket = true;
        return parse_name(p, at, key, value, r->socket);
    }
    return parse_fail_key(p, at,
                          "users are matched by \"uid\" or \"user\", \"gid\" or \"group\", and "
                          "\"socket\"");
}

static int match_peer(const struct parse *p, const struct text_path *at, const char *key,
                      const json_t *value, struct rule *r) {
    if (strcmp(key, "name") != 0)
        return parse_fail_key(p, at, "peers are matched by \"name\"");
    int rc = parse_pattern(p, at, key, value);
    if (!rc)
        strcpy(r->peer, json_string_value(value));
    return rc;
}

static int parse_match(const struct parse *p, const struct text_path *at, bool peer, json_t *value,
                       struct rule *r) {
    const char *key;
    json_t *one;
    if (!json_is_object(value))
        return parse_wrong_type(p, at, "match", "an object", value);
    json_object_foreach(value, key, one) {
        struct text_path here = text_path_key(at, key);
        int rc = peer ? match_peer(p, &here, key, one, r) : match_user(p, &here, key, one, r);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- a rule ------------------------------------------------------------------------------ */

static int rule_key_unknown(const struct parse *p, const struct text_path *at, const char *key,
                            unsigned whose, bool limit) {
    char known[600] = "";
    struct error e;
    for (unsigned k = limit ? RULE_LIMITS : 0; k < (limit ? RULE_KEYS : RULE_LIMITS); k++)
        if (rule_keys[k].whose & whose) {
            strncat(known, ", ", sizeof(known) - strlen(known) - 1);
            strncat(known, rule_keys[k].name, sizeof(known) - strlen(known) - 1);
        }
    error_set(&e, RDMAD_E_CONFIG, "unknown key \"%.40s\"; there are %s%s", key,
              limit                   ? ""
              : whose == RULE_OF_USER ? "match, limits, "
                                      : "match, ",
              known + 2);
    return parse_fail_key(p, at, e.text);
}

static int parse_key(const struct parse *p, const struct text_path *at, const char *key, bool limit,
                     bool peer, json_t *value, struct rule *r) {
    unsigned whose = peer ? RULE_OF_PEER : RULE_OF_USER;
    enum rule_key k = rule_key_find(key, whose, limit);
    if (k == RULE_KEYS)
        return rule_key_unknown(p, at, key, whose, limit);
    return parse_value(p, at, k, value, &r->value[k]);
}

static int parse_limits(const struct parse *p, const struct text_path *at, json_t *value,
                        struct rule *r) {
    const char *key;
    json_t *one;
    if (!json_is_object(value))
        return parse_wrong_type(p, at, "limits", "an object", value);
    json_object_foreach(value, key, one) {
        struct text_path here = text_path_key(at, key);
        int rc = parse_key(p, &here, key, true, false, one, r);
        if (rc)
            return rc;
    }
    return 0;
}

static int parse_rule(const struct parse *p, const struct text_path *at, bool peer, json_t *value) {
    const char *key;
    json_t *one;
    if (!json_is_object(value))
        return parse_wrong_type(p, at, "a rule", "an object", value);
    struct rule *r = rules_add(p->config->rules, peer, p->name);
    if (!r)
        return rules_no_memory(p);
    if (peer)
        strcpy(r->peer, "*");
    json_object_foreach(value, key, one) {
        struct text_path here = text_path_key(at, key);
        int rc;
        if (!strcmp(key, "match"))
            rc = parse_match(p, &here, peer, one, r);
        else if (!peer && !strcmp(key, "limits"))
            rc = parse_limits(p, &here, one, r);
        else
            rc = parse_key(p, &here, key, false, peer, one, r);
        if (rc)
            return rc;
    }
    return 0;
}

static int parse_policy(const struct parse *p, const struct text_path *at, json_t *value) {
    const char *key;
    json_t *list;
    if (!json_is_object(value))
        return parse_wrong_type(p, at, "policy", "an object", value);
    json_object_foreach(value, key, list) {
        struct text_path here = text_path_key(at, key);
        bool peer = !strcmp(key, "peers");
        const struct rules *r = p->config->rules;
        if (!peer && strcmp(key, "users") != 0)
            return parse_fail_key(p, &here, "policy has rules for \"users\" and for \"peers\"");
        if (!json_is_array(list))
            return parse_wrong_type(p, &here, key, "a list of rules, [{ ... }, ...]", list);
        for (size_t i = 0; i < json_array_size(list); i++) {
            struct text_path one = text_path_index(&here, i);
            if ((peer ? r->npeers : r->nusers) == RULES_MAX)
                return parse_fail_value(p, &one, "there are more than 1024 rules");
            int rc = parse_rule(p, &one, peer, json_array_get(list, i));
            if (rc)
                return rc;
        }
    }
    return 0;
}

/* ---- sockets ----------------------------------------------------------------------------- */

static int parse_mode(const struct parse *p, const struct text_path *at, const json_t *value,
                      mode_t *out) {
    const char *text = json_string_value(value);
    char *end = NULL;
    unsigned long mode = text ? strtoul(text, &end, 8) : 0;
    if (!text || !*text || *end || mode > 0777 || strspn(text, "01234567") != strlen(text))
        return parse_fail_value(p, at, "mode must be a text of octal digits, as \"0660\"");
    *out = (mode_t)mode;
    return 0;
}

static int parse_path(const struct parse *p, const struct text_path *at, const json_t *value,
                      struct rule_socket *s) {
    const char *path = json_string_value(value);
    if (!path || *path != '/' || strlen(path) >= sizeof(s->path))
        return parse_fail_value(p, at,
                                "path must be absolute and of at most 107 bytes, as the addresses "
                                "of Unix sockets are");
    strcpy(s->path, path);
    return 0;
}

static int parse_socket_key(const struct parse *p, const struct text_path *at, const char *key,
                            const json_t *value, struct rule_socket *s) {
    if (!strcmp(key, "tenant"))
        return parse_name(p, at, key, value, s->tenant);
    if (!strcmp(key, "path"))
        return parse_path(p, at, value, s);
    if (!strcmp(key, "user"))
        return parse_user(p, at, value, &s->user);
    if (!strcmp(key, "group"))
        return parse_group(p, at, value, &s->group);
    if (!strcmp(key, "uid"))
        return parse_id(p, at, key, value, &s->user);
    if (!strcmp(key, "gid"))
        return parse_id(p, at, key, value, &s->group);
    if (!strcmp(key, "mode"))
        return parse_mode(p, at, value, &s->mode);
    return parse_fail_key(p, at, "a socket has tenant, path, user or uid, group or gid, and mode");
}

/* Each has a tenant and a path of its own. */
static int check_alone(const struct parse *p, const struct text_path *at,
                       const struct rule_socket *s) {
    const struct rules *all = p->config->rules;
    const struct text_path here = text_path_key(at, "path");
    char text[sizeof(s->tenant) + sizeof(s->path) + 64];
    for (unsigned i = 0; i < all->nsockets; i++) {
        const struct rule_socket *other = &all->sockets[i];
        if (!strcmp(other->tenant, s->tenant))
            return parse_fail_value(p, at, "another socket has the same tenant");
        if (!s->path[0] || strcmp(other->path, s->path) != 0)
            continue;
        snprintf(text, sizeof(text), "the socket of tenant %s has the same path, %s", other->tenant,
                 s->path);
        return parse_fail_value(p, &here, text);
    }
    return 0;
}

static int parse_socket(const struct parse *p, const struct text_path *at, json_t *value) {
    struct rule_socket s = {.user = (uid_t)-1, .group = (gid_t)-1, .mode = 0660};
    const char *key;
    json_t *one;
    size_t line, column;
    if (!json_is_object(value))
        return parse_wrong_type(p, at, "a socket", "an object", value);
    json_object_foreach(value, key, one) {
        struct text_path here = text_path_key(at, key);
        int rc = parse_socket_key(p, &here, key, one, &s);
        if (rc)
            return rc;
    }
    if (!s.tenant[0])
        return parse_fail_value(p, at, "a socket needs a \"tenant\", by which rules match it");
    int rc = check_alone(p, at, &s);
    if (rc)
        return rc;
    text_line(&p->text, text_locate(&p->text, at, false), &line, &column);
    s.line = (unsigned)line;
    struct rule_socket *added = rules_add_socket(p->config->rules);
    if (!added)
        return rules_no_memory(p);
    *added = s;
    return 0;
}

static int parse_sockets(const struct parse *p, const struct text_path *at, json_t *value) {
    if (!json_is_array(value))
        return parse_wrong_type(p, at, "sockets", "a list, [{ ... }, ...]", value);
    for (size_t i = 0; i < json_array_size(value); i++) {
        struct text_path one = text_path_index(at, i);
        if (p->config->rules->nsockets == RULE_SOCKETS_MAX)
            return parse_fail_value(p, &one, "there are more than 64 sockets");
        int rc = parse_socket(p, &one, json_array_get(value, i));
        if (rc)
            return rc;
    }
    return 0;
}

rules_parse *rules_section(const char *key) {
    if (!strcmp(key, "policy"))
        return parse_policy;
    return strcmp(key, "sockets") ? NULL : parse_sockets;
}
