/* SPDX-License-Identifier: MIT */
/*
 * sim_message.c - the way of a SEND through sim.
 *
 * A SEND that has come lies in its target's inbox, copied, until that instance is polled; it is
 * answered as soon as it lies there, so an initiator may see DONE before anybody has read it. What
 * lies there is passed on even when its link is gone by then, perhaps after the first messages of
 * the next link: their number tells them apart. Those of one connection keep their order.
 *
 * One that asks is answered when it is passed on.
 *
 * Lost with its link: a SEND under way is UNKNOWN in any case; whether it comes all the same is for
 * the script's late_send_ppm to say. When one does not, none behind it does. Of one that would have
 * landed half comes in that case, and then that it is no message.
 */
#include "daemon/base/clock.h"
#include "tests/support/sim_world.h"
#include <stdlib.h>
#include <string.h>

struct message {
    struct list node;
    uint64_t peer, number, due_ns;
    bool unordered;
    size_t size, head;
    bool lands, begun, cut;
    uint64_t moved; /* of its payload, to landing */
    struct fabric_landing *landing;
    struct sim_op *asks; /* whose answer is awaited */
    uint8_t bytes[];
};

static bool weak(const struct sim_op *op) {
    return op->fop->service != RDMAD_CHANNEL_RELIABLE;
}

/* Whether the SEND has to wait for before, which was posted earlier on its link. */
static bool goes_behind(const struct link *link, const struct sim_op *before) {
    uint8_t opcode = before->fop->opcode;
    if (before->stage == ANSWERED || before->message || opcode == RDMAD_OP_READ)
        return false;
    return opcode == RDMAD_OP_SEND ? !weak(before) : link->base.ordered;
}

bool sim_may_take_effect(const struct sim_op *op) {
    uint8_t opcode = op->fop->opcode;
    if (opcode == RDMAD_OP_CAS || opcode == RDMAD_OP_FADD)
        return !sim_script()->hold_atomics;
    if (opcode != RDMAD_OP_SEND)
        return true;
    if (sim_script()->hold_sends)
        return false;
    list_for_each (pos, &op->link->ops) {
        const struct sim_op *before = list_entry(pos, struct sim_op, node);
        if (before == op)
            break;
        if (goes_behind(op->link, before))
            return false;
    }
    return true;
}

static bool lands(const struct sim_op *op) {
    const struct sim_script *script = sim_script();
    return script->land_from && !weak(op) && op->link->to->env->landing &&
           op->fop->length - op->fop->head_size >= script->land_from;
}

static int put_in_inbox(struct sim_op *op, bool cut) {
    const struct fabric_op *fop = op->fop;
    struct instance *to = op->link->to;
    if (!to->env->received)
        return RDMAD_E_UNSUPPORTED;
    struct message *message = calloc(1, sizeof(*message) + fop->length);
    if (!message)
        abort();
    message->peer = op->link->peer;
    message->number = op->link->base.number;
    message->due_ns = sim_later();
    message->unordered = fop->service == RDMAD_CHANNEL_DATAGRAM;
    message->size = fop->length;
    message->head = fop->head_size;
    message->lands = lands(op);
    message->cut = cut;
    memcpy(message->bytes, op->head, fop->head_size);
    if (fop->length > fop->head_size)
        memcpy(message->bytes + fop->head_size, fop->local, fop->length - fop->head_size);
    list_append(&to->inbox, &message->node);
    if (fop->asks) {
        message->asks = op;
        op->message = message;
    }
    return RDMAD_OK;
}

void sim_send_arrives(struct sim_op *op) {
    int status = put_in_inbox(op, false);
    if (!status)
        op->moved = op->fop->length;
    if (op->message)
        op->due_ns = CLOCK_NEVER; /* until it is passed on */
    else
        sim_answer(op, status);
}

void sim_send_forget(struct sim_op *op) {
    if (op->message)
        op->message->asks = NULL;
    op->message = NULL;
}

static void answered(struct message *message, uint64_t word) {
    struct sim_op *op = message->asks;
    if (!op)
        return;
    sim_send_forget(op);
    op->value = word;
    sim_answer(op, RDMAD_OK);
}

void sim_send_left(struct sim_op *op) {
    if (op->link->to && !sim_chance(sim_script()->lose_weak_ppm))
        put_in_inbox(op, false);
    op->moved = op->fop->length;
    op->stage = ANSWERED;
    op->due_ns = sim_now();
}

bool sim_send_cut(struct sim_op *op) {
    if (!op->link->to || op->due_ns == CLOCK_NEVER)
        return false;
    bool late = sim_chance(sim_script()->late_send_ppm);
    if (late || lands(op))
        put_in_inbox(op, !late);
    return late;
}

void sim_sends_cut(struct link *link) {
    list_for_each (pos, &link->ops) {
        struct sim_op *op = list_entry(pos, struct sim_op, node);
        if (op->fop->opcode != RDMAD_OP_SEND || op->stage == ANSWERED || op->message)
            continue;
        if (op->stage == POSTED || !sim_send_cut(op))
            return;
    }
}

void sim_abandon(struct fabric_landing *landing) {
    struct message *message = landing->home;
    message->landing = NULL;
}

/* It is over. */
static void pass_on(struct instance *in, struct message *message) {
    const struct fabric_env *env = in->env;
    bool whole = !message->cut && message->moved == message->size - message->head;
    list_remove(&message->node);
    if (message->landing)
        env->landed(env->user, message->landing, whole ? RDMAD_OK : RDMAD_E_PEER_LOST);
    else if (!message->begun)
        answered(message, env->received(env->user, message->peer, message->number, message->bytes,
                                        message->size));
    if (message->asks)
        sim_send_forget(message->asks);
    free(message);
}

/* One step of a landing. Whether it needs more. */
static bool land(struct instance *in, struct message *message) {
    const struct sim_script *script = sim_script();
    uint64_t bytes = message->size - message->head - message->moved;
    const uint8_t *from = message->bytes + message->head + message->moved;
    message->due_ns = sim_later();
    if (!message->begun) {
        message->begun = true;
        message->landing = in->env->landing(in->env->user, message->peer, message->number,
                                            message->bytes, message->head, bytes);
        if (message->landing)
            message->landing->home = message;
        return true;
    }
    if (bytes == 0 || (message->cut && message->moved >= (message->size - message->head) / 2))
        return false;
    if (script->chunk && bytes > script->chunk)
        bytes = script->chunk;
    if (message->landing)
        memcpy((uint8_t *)message->landing->base + message->moved, from, bytes);
    message->moved += bytes;
    return true;
}

void sim_inbox_clear(struct instance *in, uint64_t peer) {
    list_for_each_safe (pos, &in->inbox) {
        struct message *message = list_entry(pos, struct message, node);
        if (peer && message->peer != peer)
            continue;
        message->cut = message->begun = true;
        pass_on(in, message);
    }
}

static bool first_of_its_connection(const struct instance *in, const struct message *message) {
    list_for_each (pos, &in->inbox) {
        const struct message *before = list_entry(pos, struct message, node);
        if (before == message || message->unordered)
            break;
        if (before->number == message->number && !before->unordered)
            return false;
    }
    return true;
}

static struct message *message_first_due(const struct instance *in) {
    list_for_each (pos, &in->inbox) {
        struct message *message = list_entry(pos, struct message, node);
        if (message->due_ns <= sim_now() && first_of_its_connection(in, message))
            return message;
    }
    return NULL;
}

/* Each callback may expel anybody, so the list is read anew. */
unsigned sim_inbox_read(struct instance *in) {
    unsigned work = 0;
    for (struct message *message; (message = message_first_due(in)); work++)
        if (!message->lands || !land(in, message))
            pass_on(in, message);
    return work;
}

uint64_t sim_inbox_due_ns(const struct instance *in) {
    uint64_t due = CLOCK_NEVER;
    list_for_each (pos, &in->inbox) {
        const struct message *message = list_entry(pos, struct message, node);
        if (message->due_ns < due && first_of_its_connection(in, message))
            due = message->due_ns;
    }
    return due;
}
