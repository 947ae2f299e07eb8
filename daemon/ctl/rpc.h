/* SPDX-License-Identifier: MIT */
/*
 * rpc.h - JSON-RPC 2.0 as text: a line becomes a request, a result becomes a line. No sockets.
 *
 * One request a line, one answer a line. Params are by name (an object) or absent. Batches are
 * refused: a caller that wants two answers sends two lines. Errors carry the code of the standard,
 * or RPC_FAILED + RDMAD_E_* for errors of the daemon itself, and always
 * "data": {"code": "RDMAD_E_...", "text": the whole sentence}.
 */
#ifndef RDMAD_CTL_RPC_H
#define RDMAD_CTL_RPC_H

#include "daemon/base/error.h"
#include <jansson.h>
#include <stdbool.h>

enum rpc_code {
    RPC_PARSE = -32700,
    RPC_REQUEST = -32600,
    RPC_METHOD = -32601,
    RPC_PARAMS = -32602,
    RPC_FAILED = -32000, /* minus the size of the RDMAD_E_* code: -32001 is RDMAD_E_INVAL */
};

/* Bytes of an id that is text. It is kept until its call is answered, and nobody is charged. */
#define RPC_ID_MAX 256u

struct rpc_request {
    json_t *document;   /* holds all below */
    json_t *id;         /* borrowed; NULL: a notification, which gets no answer */
    const char *method; /* borrowed */
    json_t *params;     /* borrowed; NULL: none */
};

/* Parses one line (without its end). Returns 0, out then holds references until rpc_request_fini;
 * or an rpc_code with err's sentence, and out->id if it could be read and is one. Always fini. */
int rpc_parse(const char *line, size_t size, struct rpc_request *out, struct error *err);
void rpc_request_fini(struct rpc_request *rq);

/* RPC_ANY_UINT: beyond 2^63, where JSON numbers end here, it is a string of its digits. */
enum rpc_type { RPC_END, RPC_BOOL, RPC_UINT, RPC_ANY_UINT, RPC_TEXT };
struct rpc_param {
    const char *name;
    enum rpc_type type; /* RPC_END ends the list */
    bool required;
    uint64_t max; /* of a number, or of a text's bytes; a required text is not empty */
};

/* Checks params (may be NULL) against the list: unknown, missing, wrong type, out of range. Returns
 * 0 or RDMAD_E_INVAL with a sentence that names the parameter. */
int rpc_check(const struct rpc_param *list, const json_t *params, struct error *err);

/* Checked parameters; 0, false or NULL when absent. */
uint64_t rpc_uint(const json_t *params, const char *name);
bool rpc_bool(const json_t *params, const char *name);
const char *rpc_text(const json_t *params, const char *name);

/* An answer with its newline, the caller's to free; NULL when out of memory. rpc_result takes over
 * result. id may be NULL (null is printed). */
char *rpc_result(json_t *id, json_t *result);
char *rpc_error(json_t *id, int code, const struct error *why);

#endif
