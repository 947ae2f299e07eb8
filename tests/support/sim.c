/* SPDX-License-Identifier: MIT */
/*
 * sim.c - see sim.h.
 *
 * An op is REQUESTED until its last byte is moved, then ANSWERED; each step has a time at which it
 * happens. step_op moves one chunk through the window, as the target would; when an answer's time
 * has come the op is completed in its initiator's next poll. A lost message has no time at all.
 */
#include "daemon/base/clock.h"
#include "tests/support/sim_world.h"
#include <stdlib.h>
#include <string.h>

struct offer {
    struct list node;
    uint64_t peer, token;
    uint64_t link, number; /* for whose hello, and what its connection is called here */
};

struct hello_blob {
    uint64_t link;
};
struct offer_blob {
    uint64_t instance, token;
};

static struct {
    struct list instances;
    uint64_t now_ns, random, next_id, next_number;
    unsigned inflight;
    struct sim_script script;
} world;

/* ---- the world --------------------------------------------------------------------------- */

void sim_reset(uint64_t seed) {
    list_init(&world.instances);
    world.now_ns = NSEC_PER_SEC;
    world.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    world.next_id = 1;
    world.next_number = 1;
    world.inflight = 0;
    world.script =
        (struct sim_script){.delay_min_ns = 1000, .delay_max_ns = 2000, .max_inflight = 16};
}

struct sim_script *sim_script(void) {
    return &world.script;
}

uint64_t sim_now(void) {
    return world.now_ns;
}

void sim_advance(uint64_t ns) {
    world.now_ns += ns;
}

unsigned sim_inflight(void) {
    return world.inflight;
}

uint64_t sim_random(uint64_t bound) {
    world.random ^= world.random << 13;
    world.random ^= world.random >> 7;
    world.random ^= world.random << 17;
    return world.random % bound;
}

bool sim_chance(uint32_t ppm) {
    return ppm && sim_random(1000000) < ppm;
}

uint64_t sim_later(void) {
    const struct sim_script *s = &world.script;
    return world.now_ns + s->delay_min_ns + sim_random(s->delay_max_ns - s->delay_min_ns + 1);
}

static struct instance *instance_of(struct fabric *f) {
    return container_of(f, struct instance, base);
}

static struct instance *find_instance(uint64_t id) {
    list_for_each (pos, &world.instances) {
        struct instance *in = list_entry(pos, struct instance, node);
        if (in->id == id)
            return in;
    }
    return NULL;
}

/* ---- instances, offers, links ------------------------------------------------------------ */

static int sim_open(const struct fabric_env *env, struct fabric **out, struct error *err) {
    struct instance *in = calloc(1, sizeof(*in));
    if (!in)
        return error_set(err, RDMAD_E_NOMEM, "sim: out of memory");
    in->base.ops = &fabric_sim;
    in->env = env;
    in->id = world.next_id++;
    list_init(&in->links);
    list_init(&in->offers);
    list_init(&in->changing);
    list_init(&in->inbox);
    slots_init(&in->windows, 1u << 16);
    list_append(&world.instances, &in->node);
    *out = &in->base;
    return 0;
}

/* Every link whose target this is breaks. peer 0: of whichever peer. */
static void drop_incoming(struct instance *to, uint64_t peer) {
    list_for_each (pos, &world.instances) {
        list_for_each (lpos, &list_entry(pos, struct instance, node)->links) {
            struct link *link = list_entry(lpos, struct link, node);
            if (link->to == to && (peer == 0 || link->peer == peer)) {
                link->to = NULL;
                link->broken = true;
            }
        }
    }
}

static void sim_expel(struct fabric *f, uint64_t peer) {
    struct instance *in = instance_of(f);
    drop_incoming(in, peer);
    sim_inbox_clear(in, peer);
    list_for_each_safe (pos, &in->offers) {
        struct offer *offer = list_entry(pos, struct offer, node);
        if (offer->peer != peer)
            continue;
        list_remove(pos);
        free(offer);
    }
}

static void sim_close(struct fabric *f) {
    struct instance *in = instance_of(f);
    drop_incoming(in, 0);
    sim_inbox_clear(in, 0);
    for (struct list *pos; (pos = list_pop(&in->offers));)
        free(list_entry(pos, struct offer, node));
    slots_fini(&in->windows);
    list_remove(&in->node);
    free(in);
}

static int sim_offer(struct fabric *f, uint64_t peer, bool secured, const struct fabric_blob *hello,
                     struct fabric_blob *out, struct error *err) {
    (void)secured;
    struct hello_blob said;
    if (hello->size != sizeof(said))
        return error_set(err, RDMAD_E_PROTOCOL, "sim: not a hello of sim's");
    struct offer *offer = malloc(sizeof(*offer));
    if (!offer)
        return error_set(err, RDMAD_E_NOMEM, "sim: out of memory");
    memcpy(&said, hello->bytes, sizeof(said));
    *offer = (struct offer){.peer = peer,
                            .token = sim_random(UINT64_MAX),
                            .link = said.link,
                            .number = world.next_number++};
    list_append(&instance_of(f)->offers, &offer->node);
    struct offer_blob blob = {instance_of(f)->id, offer->token};
    out->size = sizeof(blob);
    memcpy(out->bytes, &blob, sizeof(blob));
    return 0;
}

/* Takes up the offer, once. */
static void take_offer(struct link *link, const struct fabric_blob *bytes) {
    struct offer_blob blob = {0, 0};
    if (bytes->size == sizeof(blob))
        memcpy(&blob, bytes->bytes, sizeof(blob));
    struct instance *to = find_instance(blob.instance);
    if (!to || world.script.refuse_connections)
        return;
    list_for_each (pos, &to->offers) {
        struct offer *offer = list_entry(pos, struct offer, node);
        if (offer->token != blob.token || offer->link != link->id)
            continue;
        link->to = to;
        link->peer = offer->peer;
        link->base.number = offer->number;
        list_remove(pos);
        free(offer);
        return;
    }
}

static int sim_link_new(struct fabric *f, void *cookie, bool secured, struct fabric_link **out,
                        struct fabric_blob *hello, struct error *err) {
    (void)secured;
    struct link *link = calloc(1, sizeof(*link));
    if (!link)
        return error_set(err, RDMAD_E_NOMEM, "sim: out of memory");
    link->base.fabric = f;
    link->from = instance_of(f);
    link->cookie = cookie;
    link->id = world.next_id++;
    link->up_ns = CLOCK_NEVER;
    list_init(&link->ops);
    list_append(&link->from->links, &link->node);
    struct hello_blob says = {link->id};
    hello->size = sizeof(says);
    memcpy(hello->bytes, &says, sizeof(says));
    *out = &link->base;
    return 0;
}

static int sim_link_open(struct fabric_link *base, const char *host,
                         const struct fabric_blob *offer, struct error *err) {
    struct link *link = container_of(base, struct link, base);
    (void)host;
    if (link->broken)
        return error_set(err, RDMAD_E_UNREACHABLE, "sim: the link broke before it was opened");
    link->up_ns = sim_later();
    take_offer(link, offer);
    link->broken = !link->to;
    return 0;
}

/* ---- the end of an op -------------------------------------------------------------------- */

static void complete(struct sim_op *op, int status, uint8_t outcome) {
    struct link *link = op->link;
    struct fabric_op *fop = op->fop;
    list_remove(&op->node);
    sim_send_forget(op);
    link->inflight--;
    link->sends -= fop->opcode == RDMAD_OP_SEND;
    world.inflight--;
    fop->value = op->value;
    free(op);
    fop->status = status;
    fop->outcome = outcome;
    link->from->env->complete(link->from->env->user, fop);
}

/* What can be said of an op that ends without its answer. */
static uint8_t unanswered(const struct sim_op *op, bool whole_is_unknown) {
    bool begun = op->stage == ANSWERED || op->moved > 0;
    if (op->stage == POSTED || (world.script.knows_unexecuted && !begun))
        return RDMAD_FAILED_UNTOUCHED;
    if (op->fop->opcode == RDMAD_OP_READ)
        return RDMAD_FAILED_PARTIAL;
    if (op->fop->opcode != RDMAD_OP_WRITE || whole_is_unknown || op->moved == op->fop->length)
        return RDMAD_UNKNOWN;
    return RDMAD_FAILED_PARTIAL;
}

static struct sim_op *sim_op_of(const struct fabric_op *fop) {
    return (struct sim_op *)(uintptr_t)fop->scratch[0];
}

static void sim_cancel(struct fabric_op *fop, int status) {
    struct sim_op *op = sim_op_of(fop);
    if (!world.script.lazy_cancel) {
        if (fop->opcode == RDMAD_OP_SEND && op->stage == REQUESTED && sim_may_take_effect(op))
            sim_send_cut(op);
        complete(op, status, unanswered(op, false));
    } else if (!op->cancel) {
        op->cancel = status;
        op->cancel_ns = sim_later();
    }
}

static void end_ops(struct link *link, int status) {
    sim_sends_cut(link);
    for (struct list *pos; (pos = list_first(&link->ops));) {
        struct sim_op *op = list_entry(pos, struct sim_op, node);
        complete(op, status, unanswered(op, status == RDMAD_E_PEER_LOST));
    }
}

static void sim_link_close(struct fabric_link *base) {
    struct link *link = container_of(base, struct link, base);
    end_ops(link, RDMAD_E_CANCELED);
    list_remove(&link->node);
    free(link);
}

void sim_break_links(struct fabric *f) {
    list_for_each (pos, &instance_of(f)->links) {
        list_entry(pos, struct link, node)->broken = true;
    }
}

/* ---- the way of an op -------------------------------------------------------------------- */

static bool well_formed(const struct fabric_link *link, const struct fabric_op *fop) {
    if (fop->opcode != RDMAD_OP_SEND)
        return fop->key && fop->length <= link->max_message;
    if (fop->service && !(world.script.services & 1u << fop->service))
        return false;
    uint64_t most = fop->service == RDMAD_CHANNEL_DATAGRAM ? link->max_datagram : link->max_send;
    return fop->head_size <= FABRIC_HEAD_MAX && fop->head_size <= fop->length &&
           fop->length <= most;
}

static int sim_post(struct fabric_link *base, struct fabric_op *fop) {
    struct link *link = container_of(base, struct link, base);
    if (link->broken)
        return RDMAD_E_PEER_LOST;
    bool send = fop->opcode == RDMAD_OP_SEND;
    uint32_t window = world.script.receive_window;
    if (link->inflight >= world.script.max_inflight || (send && window && link->sends >= window))
        return RDMAD_E_AGAIN;
    struct sim_op *op = calloc(1, sizeof(*op));
    if (!op || !link->up || !well_formed(base, fop))
        abort(); /* the caller broke fabric.h */
    op->fop = fop;
    op->link = link;
    if (send && fop->head_size)
        memcpy(op->head, fop->head, fop->head_size);
    if (!send)
        memcpy(&op->handle, fop->key->bytes, sizeof(op->handle));
    link->sends += send;
    fop->link = base;
    fop->scratch[0] = (uint64_t)(uintptr_t)op;
    list_append(&link->ops, &op->node);
    link->inflight++;
    world.inflight++;
    return 0;
}

void sim_answer(struct sim_op *op, int status) {
    op->stage = ANSWERED;
    op->answer = status;
    op->due_ns = sim_chance(world.script.lose_answer_ppm) ? CLOCK_NEVER : sim_later();
}

void sim_cut(const struct instance *in, uint64_t handle, int reason) {
    list_for_each (pos, &world.instances) {
        list_for_each (lpos, &list_entry(pos, struct instance, node)->links) {
            struct link *link = list_entry(lpos, struct link, node);
            list_for_each (opos, &link->ops) {
                struct sim_op *op = list_entry(opos, struct sim_op, node);
                if (link->to == in && op->handle == handle && op->stage == REQUESTED && op->moved)
                    sim_answer(op, reason);
            }
        }
    }
}

/* One chunk through the window, as the target would do it. */
static void step_op(struct sim_op *op) {
    if (op->fop->opcode == RDMAD_OP_SEND) {
        sim_send_arrives(op);
        return;
    }
    struct window *window = slots_get(&op->link->to->windows, op->handle);
    const struct fabric_op *fop = op->fop;
    int status = sim_window_check(window, op);
    if (status) {
        sim_answer(op, status);
        return;
    }
    if (fop->opcode == RDMAD_OP_CAS || fop->opcode == RDMAD_OP_FADD) {
        sim_window_atomic(window, op);
        sim_answer(op, RDMAD_OK);
        return;
    }
    uint64_t bytes = fop->length - op->moved;
    if (world.script.chunk && bytes > world.script.chunk)
        bytes = 1 + sim_random(world.script.chunk);
    uint8_t *here = (uint8_t *)fop->local + op->moved;
    uint8_t *there = (uint8_t *)window->spec.base + fop->offset + op->moved;
    bool read = fop->opcode == RDMAD_OP_READ;
    memmove(read ? here : there, read ? there : here, bytes);
    op->moved += bytes;
    if (!read && world.script.placed)
        world.script.placed(window->spec.base, fop->offset + op->moved - bytes, bytes);
    struct fabric_audit *audit = window->spec.audit;
    if (audit) {
        *(read ? &audit->bytes_read : &audit->bytes_written) += bytes;
        audit->last_use_ns = world.now_ns;
    }
    if (op->moved < fop->length)
        op->due_ns = sim_later();
    else
        sim_answer(op, RDMAD_OK);
}

static unsigned move_world(void) {
    unsigned work = 0;
    list_for_each (pos, &world.instances) {
        list_for_each (lpos, &list_entry(pos, struct instance, node)->links) {
            struct link *link = list_entry(lpos, struct link, node);
            list_for_each (opos, &link->ops) {
                struct sim_op *op = list_entry(opos, struct sim_op, node);
                if (link->to && op->stage == REQUESTED && op->due_ns <= world.now_ns &&
                    sim_may_take_effect(op)) {
                    step_op(op);
                    work++;
                }
            }
        }
    }
    return work;
}

static void send_posted(struct link *link) {
    list_for_each (pos, &link->ops) {
        struct sim_op *op = list_entry(pos, struct sim_op, node);
        if (op->stage != POSTED)
            continue;
        if (op->fop->service != RDMAD_CHANNEL_RELIABLE) {
            sim_send_left(op);
            continue;
        }
        op->stage = REQUESTED;
        op->due_ns = sim_chance(world.script.lose_request_ppm) ? CLOCK_NEVER : sim_later();
    }
}

static bool ready(const struct sim_op *op) {
    return (op->stage == ANSWERED && op->due_ns <= world.now_ns) ||
           (op->cancel && op->cancel_ns <= world.now_ns);
}

static struct sim_op *first_ready(struct link *link) {
    list_for_each (pos, &link->ops) {
        struct sim_op *op = list_entry(pos, struct sim_op, node);
        if (ready(op))
            return op;
    }
    return NULL;
}

/* Completes whose answer is there. Each callback may cancel others, so the list is read anew. */
static unsigned take_answers(struct link *link) {
    unsigned work = 0;
    for (struct sim_op *op; (op = first_ready(link)); work++) {
        uint8_t outcome = RDMAD_DONE;
        if (op->stage != ANSWERED || op->due_ns > world.now_ns) {
            complete(op, op->cancel, unanswered(op, false));
            continue;
        }
        if (op->answer)
            outcome = op->moved ? RDMAD_FAILED_PARTIAL : RDMAD_FAILED_UNTOUCHED;
        if (op->answer == RDMAD_E_NO_LEASE && world.script.refusal_breaks)
            link->broken = op->fop->broke_link = true;
        complete(op, op->answer, outcome);
    }
    return work;
}

static unsigned poll_link(struct instance *in, struct link *link) {
    if (link->broken) {
        if (link->lost_told)
            return 0;
        end_ops(link, RDMAD_E_PEER_LOST);
        link->lost_told = true;
        struct error why;
        error_set(&why, link->up ? RDMAD_E_PEER_LOST : RDMAD_E_UNREACHABLE, "sim: the link broke");
        in->env->link_lost(in->env->user, link->cookie, &why);
        return 1;
    }
    unsigned work = 0;
    if (!link->up && link->up_ns <= world.now_ns) {
        link->up = true;
        const struct sim_script *script = &world.script;
        link->base.max_message = script->max_message ? script->max_message : SIM_MAX_MESSAGE;
        link->base.max_send = script->max_send ? script->max_send : SIM_MAX_SEND;
        if (script->services & 1u << RDMAD_CHANNEL_DATAGRAM)
            link->base.max_datagram = SIM_MAX_DATAGRAM;
        link->base.ordered = !script->unordered;
        in->env->link_up(in->env->user, link->cookie);
        work++;
    }
    if (link->up)
        send_posted(link);
    return work + take_answers(link);
}

static unsigned sim_poll(struct fabric *f) {
    struct instance *in = instance_of(f);
    unsigned work = move_world() + sim_windows_change(in) + sim_inbox_read(in);
    list_for_each_safe (pos, &in->links) {
        work += poll_link(in, list_entry(pos, struct link, node));
    }
    return work;
}

static int sim_wait_fd(struct fabric *f) {
    (void)f;
    return -1;
}

static bool sim_arm(struct fabric *f, uint64_t *wake_ns) {
    uint64_t inbox_ns = sim_inbox_due_ns(instance_of(f));
    *wake_ns = sim_windows_due_ns(instance_of(f));
    if (inbox_ns < *wake_ns)
        *wake_ns = inbox_ns;
    list_for_each (pos, &instance_of(f)->links) {
        struct link *link = list_entry(pos, struct link, node);
        if (link->broken && !link->lost_told)
            return false;
        if (!link->up && !link->broken && link->up_ns < *wake_ns)
            *wake_ns = link->up_ns;
        list_for_each (opos, &link->ops) {
            struct sim_op *op = list_entry(opos, struct sim_op, node);
            if (op->stage == POSTED && link->up)
                return false;
            bool waits =
                op->stage == ANSWERED || (op->stage == REQUESTED && sim_may_take_effect(op));
            if (waits && op->due_ns < *wake_ns)
                *wake_ns = op->due_ns;
            if (op->cancel && op->cancel_ns < *wake_ns)
                *wake_ns = op->cancel_ns;
        }
    }
    return *wake_ns > world.now_ns;
}

static unsigned sim_services(struct fabric_host *host) {
    (void)host;
    return world.script.services;
}

const struct fabric_ops fabric_sim = {
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .offer = sim_offer,
    .expel = sim_expel,
    .abandon = sim_abandon,
    .link_new = sim_link_new,
    .link_open = sim_link_open,
    .link_close = sim_link_close,
    .window_open = sim_window_open,
    .window_extend = sim_window_extend,
    .window_close = sim_window_close,
    .post = sim_post,
    .cancel = sim_cancel,
    .poll = sim_poll,
    .wait_fd = sim_wait_fd,
    .arm = sim_arm,
    .services = sim_services,
};
