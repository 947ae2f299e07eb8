/* SPDX-License-Identifier: MIT */
/* Any line is either a request whose params pass or fail their check with a sentence, or an error
 * whose answer is one line of JSON. */
#include "daemon/ctl/rpc.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct rpc_param list[] = {{"id", RPC_UINT, true, INT64_MAX},
                                        {"all", RPC_BOOL, false, 0},
                                        {"address", RPC_TEXT, false, 280},
                                        {"op", RPC_ANY_UINT, false, UINT64_MAX - 1},
                                        {NULL, RPC_END, false, 0}};

/* Takes over line. */
static void expect_one_line(char *line) {
    json_t *doc = line ? json_loads(line, 0, NULL) : NULL;
    if (!doc || strchr(line, '\n') != line + strlen(line) - 1)
        abort();
    json_decref(doc);
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct rpc_request rq;
    struct error err = {0};
    int code = rpc_parse((const char *)data, size, &rq, &err);
    if (!code && rpc_check(list, rq.params, &err))
        code = RPC_PARAMS;
    if (!code && rpc_uint(rq.params, "op") > UINT64_MAX - 1)
        abort();
    if (code && (!err.code || !*err.text))
        abort();
    if (code)
        expect_one_line(rpc_error(rq.id, code, &err));
    else
        expect_one_line(rpc_result(rq.id, json_deep_copy(rq.document)));
    rpc_request_fini(&rq);
    return 0;
}
