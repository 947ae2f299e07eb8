/* SPDX-License-Identifier: MIT */
/*
 * ways.c - chooses the way of connecting: for links of ours, and for a peer that says hello.
 */
#include "daemon/fabric/verbs/connect/ways.h"
#include "daemon/fabric/verbs/connect/cm_way.h"
#include "daemon/fabric/verbs/connect/exchange.h"
#include "daemon/fabric/verbs/instance/way.h"
#include "daemon/fabric/verbs/target/target.h"

void ways_device_came(struct verbs *v) {
    bool cm = v->settings->cm || v->device->iwarp; /* iWARP has no other way than rdma_cm */
    v->connect = cm ? &connect_cm : &connect_exchange;
}

int verbs_offer(struct fabric *f, uint64_t peer, bool secured, const struct fabric_blob *hello,
                struct fabric_blob *out, struct error *err) {
    (void)secured;
    struct verbs *v = verbs_of(f);
    struct verbs_hello theirs;
    struct verbs_offer ours = {0};
    struct error ignored;
    if (!err)
        err = &ignored;
    v->now_ns = v->env->now_ns(v->env->user);
    if (!blob_read_hello(hello, &theirs))
        return error_set(err, RDMAD_E_PROTOCOL,
                         "the hello of a link is not one of this version; both daemons need the "
                         "same version");
    const struct connect_way *way = theirs.cm ? &connect_cm : &connect_exchange;
    int rc = verbs_ready(v, err);
    if (rc == 0 && way->check)
        rc = way->check(v, &theirs, err);
    if (rc)
        return rc;
    struct vpeer *p = vpeer_of(v, peer, err);
    if (!p)
        return err->code;
    p->holds++;
    rc = way->offer(p, &theirs, &ours, err);
    if (rc == 0)
        blob_write_offer(&ours, out);
    p->holds--;
    vpeer_check_free(p);
    return rc;
}
