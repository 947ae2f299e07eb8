/* SPDX-License-Identifier: MIT */
/*
 * limits.c - what a device can, against what the settings ask.
 *
 * Most settings are wishes: they are lowered to what the device has. A few limits have a least
 * value below which nothing works; a device under one of those is refused, with the limit's name,
 * what it has and what is needed.
 */
#include "daemon/fabric/verbs/device/limits.h"
#include "daemon/fabric/verbs/device/facts.h"
#include <stdio.h>

#define LEAST_WR 16 /* work requests of a QP: one batch */
#define LEAST_CQE 128
#define LEAST_MR 16 /* a pool here and there, and a lease or two */

bool limits_suffice(const struct ibv_device_attr *a, const struct verbs_settings *s,
                    char why[DEVICE_WHY]) {
    const int lanes = (int)s->lanes;
    /* A link, a target, and the self-test's pair. */
    const struct {
        const char *name;
        int has, needs;
        const char *what;
    } least[] = {
        {"max_qp", a->max_qp, 2 * lanes + 2, "a link of verbs.lanes QPs each way"},
        {"max_qp_wr", a->max_qp_wr, LEAST_WR, "the shortest useful queue"},
        {"max_sge", a->max_sge, 1, "any transfer"},
        {"max_cq", a->max_cq, 2, "a worker and the self-test"},
        {"max_cqe", a->max_cqe, LEAST_CQE, "the shortest useful queue"},
        {"max_mr", a->max_mr, LEAST_MR, "pools and leases"},
        {"max_pd", a->max_pd, 2, "us and a peer"},
        {"max_qp_rd_atom", a->max_qp_rd_atom, 1, "answering a READ"},
        {"max_qp_init_rd_atom", a->max_qp_init_rd_atom, 1, "a READ of ours"},
    };
    for (size_t i = 0; i < sizeof(least) / sizeof(least[0]); i++) {
        if (least[i].has >= least[i].needs)
            continue;
        snprintf(why, DEVICE_WHY, "its limit %s is %d and %s takes %d: %s", least[i].name,
                 least[i].has, least[i].what, least[i].needs,
                 i == 0 ? "lower verbs.lanes or use another device" : "use another device");
        return false;
    }
    return true;
}

enum ibv_mtu limits_mtu(const struct ibv_port_attr *port, const struct verbs_settings *s) {
    enum ibv_mtu mtu = port->active_mtu;
    while (s->mtu && mtu > IBV_MTU_256 && mtu_bytes(mtu) > s->mtu)
        mtu--;
    return mtu;
}

static bool lower32(uint32_t *value, uint64_t limit) {
    if (*value <= limit)
        return false;
    *value = (uint32_t)limit;
    return true;
}

static bool lower8(uint8_t *value, int limit) {
    if (*value <= limit)
        return false;
    *value = (uint8_t)limit;
    return true;
}

unsigned limits_lower(const struct ibv_device_attr *a, const struct ibv_port_attr *port,
                      struct verbs_settings *s) {
    unsigned lowered = 0;
    int depth = a->max_qp_wr < a->max_cqe ? a->max_qp_wr : a->max_cqe;
    if (lower32(&s->queue_depth, (uint64_t)depth))
        lowered |= LOWERED_QUEUE_DEPTH;
    lower32(&s->signal_every, s->queue_depth);
    if (lower8(&s->rd_atomic, a->max_qp_init_rd_atom))
        lowered |= LOWERED_RD_ATOMIC;
    if (lower8(&s->dest_rd_atomic, a->max_qp_rd_atom))
        lowered |= LOWERED_DEST_RD_ATOMIC;
    if (s->max_message > port->max_msg_sz) {
        s->max_message = port->max_msg_sz;
        lowered |= LOWERED_MAX_MESSAGE;
    }
    if (s->mtu > mtu_bytes(port->active_mtu))
        lowered |= LOWERED_MTU;
    return lowered;
}
