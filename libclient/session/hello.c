/* SPDX-License-Identifier: MIT */
/*
 * hello.c - our highest version is proposed; a daemon that is older says its own, and that is
 * proposed next.
 *
 * A daemon can have us propose lower and lower versions, each once, and no version that we do not
 * speak.
 */
#include "libclient/session/hello.h"
#include "common/versions.h"
#include "libclient/base/error.h"
#include <stdio.h>
#include <string.h>

static void hello_propose(struct rdmad_session *s, uint16_t version, bool greeted) {
    pthread_mutex_lock(&s->lock);
    s->version = version;
    s->greeted = greeted;
    pthread_mutex_unlock(&s->lock);
}

static int hello_refused(struct rdmad_session *s) {
    char said[RDMAD_TEXT_MAX + 1], words[RDMAD_VERSIONS_TEXT];
    snprintf(said, sizeof(said), "%s", rdmad_error_said(s));
    return rdmad_fail(s, RDMAD_E_VERSION, "this librdmad speaks %s; rdmad says: %.180s",
                      rdmad_versions_print(rdmad_abi_versions, words), said);
}

int rdmad_hello(struct rdmad_session *s, const char *name, struct rdmad_hello_rep *reply) {
    struct rdmad_hello_req request = {.reserved = 0};
    uint16_t version = rdmad_abi_versions.highest;
    snprintf(request.name, sizeof(request.name), "%s", name);
    for (;;) {
        struct rdmad_call call = {RDMAD_CALL(RDMAD_MSG_HELLO, request, *reply), .one_try = true};
        hello_propose(s, version, false);
        int rc = rdmad_control_call(s, &call);
        if (!rc)
            hello_propose(s, version, true);
        if (rc != RDMAD_E_VERSION)
            return rc;
        if (call.version >= version || !rdmad_versions_have(rdmad_abi_versions, call.version))
            return hello_refused(s);
        version = call.version;
    }
}
