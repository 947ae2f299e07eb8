/* SPDX-License-Identifier: MIT */
/*
 * rpc.c - JSON-RPC 2.0 as text. jansson does the parsing, with duplicate keys refused; everything
 * about the shape of a request is checked here, and in one table-driven place for its params.
 */
#include "daemon/ctl/rpc.h"
#include "common/errors.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One line, and of a double what is measured rather than what is rounded. */
#define LAYOUT (JSON_COMPACT | JSON_REAL_PRECISION(12))

/* Sentences may quote bytes from outside, or have been cut inside a character: JSON takes neither.
 */
static void plain_text(char *out, const char *text) {
    size_t i = 0;
    for (; i < RDMAD_TEXT_MAX && text[i]; i++)
        out[i] = (char)(text[i] >= ' ' && text[i] < 0x7f ? text[i] : '?');
    out[i] = '\0';
}

/* The envelope. Unknown members are refused like unknown params: a typing error must not pass. */
static int check_envelope(struct rpc_request *rq, struct error *err) {
    const char *key;
    json_t *value;
    json_object_foreach(rq->document, key, value) {
        if (strcmp(key, "jsonrpc") != 0 && strcmp(key, "id") != 0 && strcmp(key, "method") != 0 &&
            strcmp(key, "params") != 0)
            return error_set(err, RDMAD_E_PROTOCOL,
                             "unknown member \"%.40s\" in the request; there are jsonrpc, id, "
                             "method and params",
                             key);
    }
    const char *version = json_string_value(json_object_get(rq->document, "jsonrpc"));
    if (!version || strcmp(version, "2.0") != 0)
        return error_set(err, RDMAD_E_PROTOCOL, "\"jsonrpc\" must be \"2.0\"");
    rq->method = json_string_value(json_object_get(rq->document, "method"));
    if (!rq->method)
        return error_set(err, RDMAD_E_PROTOCOL, "\"method\" must be a string");
    rq->params = json_object_get(rq->document, "params");
    return RDMAD_OK;
}

static int check_id(const json_t *id, struct error *err) {
    if (id && !json_is_string(id) && !json_is_number(id) && !json_is_null(id))
        return error_set(err, RDMAD_E_PROTOCOL, "\"id\" must be a string, a number or null");
    if (json_string_length(id) > RPC_ID_MAX)
        return error_set(err, RDMAD_E_LENGTH, "\"id\" has %zu bytes, at most %u are taken",
                         json_string_length(id), RPC_ID_MAX);
    return RDMAD_OK;
}

int rpc_parse(const char *line, size_t size, struct rpc_request *out, struct error *err) {
    json_error_t why;
    *out = (struct rpc_request){0};
    out->document = json_loadb(line, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (!out->document) {
        error_set(err, RDMAD_E_PROTOCOL, "not JSON: %s at column %d", why.text, why.column);
        return RPC_PARSE;
    }
    if (json_is_array(out->document)) {
        error_set(err, RDMAD_E_PROTOCOL, "batches are not taken: send one request a line");
        return RPC_REQUEST;
    }
    if (!json_is_object(out->document)) {
        error_set(err, RDMAD_E_PROTOCOL, "a request is a JSON object");
        return RPC_REQUEST;
    }
    json_t *id = json_object_get(out->document, "id");
    if (check_id(id, err))
        return RPC_REQUEST;
    out->id = id;
    return check_envelope(out, err) ? RPC_REQUEST : 0;
}

void rpc_request_fini(struct rpc_request *rq) {
    json_decref(rq->document);
    *rq = (struct rpc_request){0};
}

/* A whole number, or its digits. */
static bool any_uint(const json_t *value, uint64_t *out) {
    const char *text = json_string_value(value);
    char *end;
    if (!text) {
        *out = (uint64_t)json_integer_value(value);
        return json_is_integer(value) && json_integer_value(value) >= 0;
    }
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !errno && end == text + json_string_length(value);
}

static int check_value(const struct rpc_param *p, const json_t *value, struct error *err) {
    uint64_t number;
    switch (p->type) {
    case RPC_BOOL:
        if (!json_is_boolean(value))
            return error_set(err, RDMAD_E_INVAL, "\"%s\" must be true or false", p->name);
        return RDMAD_OK;
    case RPC_UINT:
        if (!json_is_integer(value) || json_integer_value(value) < 0 ||
            (uint64_t)json_integer_value(value) > p->max)
            return error_set(err, RDMAD_E_INVAL, "\"%s\" must be a whole number from 0 to %" PRIu64,
                             p->name, p->max);
        return RDMAD_OK;
    case RPC_ANY_UINT:
        if (!any_uint(value, &number) || number > p->max)
            return error_set(err, RDMAD_E_INVAL,
                             "\"%s\" must be a whole number from 0 to %" PRIu64
                             ", or a string of its digits",
                             p->name, p->max);
        return RDMAD_OK;
    case RPC_TEXT:
        if (!json_is_string(value) || json_string_length(value) > p->max ||
            (p->required && json_string_length(value) == 0))
            return error_set(err, RDMAD_E_INVAL,
                             "\"%s\" must be a string of %d to %" PRIu64 " bytes", p->name,
                             p->required ? 1 : 0, p->max);
        return RDMAD_OK;
    case RPC_END:
        break;
    }
    return error_set(err, RDMAD_E_INTERNAL, "parameter \"%s\" has no type", p->name);
}

int rpc_check(const struct rpc_param *list, const json_t *params, struct error *err) {
    if (params && !json_is_object(params))
        return error_set(err, RDMAD_E_INVAL, "params go by name: \"params\" must be an object");
    size_t known = 0;
    for (const struct rpc_param *p = list; p->type != RPC_END; p++) {
        const json_t *value = json_object_get(params, p->name);
        if (!value && p->required)
            return error_set(err, RDMAD_E_INVAL, "parameter \"%s\" is missing", p->name);
        if (!value)
            continue;
        int rc = check_value(p, value, err);
        if (rc)
            return rc;
        known++;
    }
    if (json_object_size(params) == known)
        return RDMAD_OK;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)params, key, value) {
        const struct rpc_param *p = list;
        while (p->type != RPC_END && strcmp(p->name, key) != 0)
            p++;
        if (p->type == RPC_END)
            break;
    }
    return error_set(err, RDMAD_E_INVAL, "unknown parameter \"%.40s\"", key);
}

uint64_t rpc_uint(const json_t *params, const char *name) {
    uint64_t number = 0;
    const json_t *value = json_object_get(params, name);
    return value && any_uint(value, &number) ? number : 0;
}

bool rpc_bool(const json_t *params, const char *name) {
    return json_is_true(json_object_get(params, name));
}

const char *rpc_text(const json_t *params, const char *name) {
    return json_string_value(json_object_get(params, name));
}

/* With a newline. It is printed twice, and may run out of memory either time: then there is no text
 * in line, but whatever was there before. */
static char *rpc_print(const json_t *answer) {
    size_t size = json_dumpb(answer, NULL, 0, LAYOUT);
    char *line = size ? malloc(size + 2) : NULL;
    if (!line)
        return NULL;
    if (json_dumpb(answer, line, size, LAYOUT) != size) {
        free(line);
        return NULL;
    }
    memcpy(line + size, "\n", 2);
    return line;
}

/* Takes over body. */
static char *rpc_line(json_t *id, const char *key, json_t *body) {
    json_t *answer = json_object();
    /* Each takes over its value, whether it fails or not: none is left out. */
    int failed = json_object_set_new(answer, "jsonrpc", json_string("2.0"));
    failed |= json_object_set_new(answer, key, body);
    failed |= json_object_set_new(answer, "id", id ? json_incref(id) : json_null());
    char *line = failed ? NULL : rpc_print(answer);
    json_decref(answer);
    return line;
}

char *rpc_result(json_t *id, json_t *result) {
    return rpc_line(id, "result", result);
}

char *rpc_error(json_t *id, int code, const struct error *why) {
    const char *message = code == RPC_PARSE     ? "Parse error"
                          : code == RPC_REQUEST ? "Invalid Request"
                          : code == RPC_METHOD  ? "Method not found"
                          : code == RPC_PARAMS  ? "Invalid params"
                                                : rdmad_error_text(why->code);
    char text[RDMAD_TEXT_MAX + 1];
    plain_text(text, why->text);
    json_t *body = json_pack("{s:i, s:s, s:{s:s, s:s}}", "code",
                             code == RPC_FAILED ? RPC_FAILED + why->code : code, "message", message,
                             "data", "code", rdmad_error_name(why->code), "text", text);
    return rpc_line(id, "error", body);
}
