/* SPDX-License-Identifier: MIT */
/*
 * What programs write into their requests, over the handlers that rdmad has: each is answered once,
 * none reaches what is another's, no limit is passed, and when all have gone nothing is left.
 */
#include "common/memfd.h"
#include "common/versions.h"
#include "daemon/ipc/porter.h"
#include "tests/fuzz/requests_rig.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOVES_MOST 160u
#define MEMORY_MOST (UINT64_C(256) << 10) /* of one memfd */

struct input {
    const uint8_t *at, *end;
};

static unsigned take(struct input *in) {
    return in->at < in->end ? *in->at++ : 0;
}

/* ---- packets ------------------------------------------------------------------------------------
 */

struct packet {
    struct rdmad_msg_header header;
    uint8_t body[RDMAD_MSG_MAX - sizeof(struct rdmad_msg_header)];
};

static void put_run(struct input *in, struct packet *pk) {
    size_t at = take(in) * 4u;
    unsigned what = take(in);
    uint8_t bytes[RDMAD_URI_MAX + 1];
    size_t n = 0;
    if (what > RUN_MOST) {
        const struct told *t = told_nth((enum thing)((what - RUN_THING) % THINGS), take(in));
        n = t ? t->size : 0;
        memcpy(bytes, t ? t->bytes : bytes, n);
    } else {
        while (n < what)
            bytes[n++] = (uint8_t)take(in);
    }
    if (n > sizeof(pk->body) - at)
        n = sizeof(pk->body) - at;
    memcpy(pk->body + at, bytes, n);
}

static int new_memory(const struct packet *pk, unsigned how) {
    uint64_t bytes;
    memcpy(&bytes, pk->body + (pk->header.type == RDMAD_MSG_POOL_RESUME ? 8 : 0), sizeof(bytes));
    size_t n = bytes && bytes <= MEMORY_MOST ? (size_t)bytes : 4096;
    int fd = memfd_create("rdmad-fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    must(fd >= 0 && ftruncate(fd, (off_t)n) == 0);
    if (!(how & PACKET_UNSEALED))
        must(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    return fd;
}

/* As the porter hands them on: one memfd, or none. */
static unsigned fds_of(const struct program *p, const struct packet *pk, unsigned how, int *fd) {
    bool wanted =
        pk->header.type == RDMAD_MSG_POOL_IMPORT || pk->header.type == RDMAD_MSG_POOL_RESUME;
    const struct memory *kept = memory_nth(0);
    switch (how & PACKET_FDS) {
    case 0:
        if (wanted)
            *fd = how & PACKET_KEPT && kept ? dup(kept->fd) : new_memory(pk, how);
        if (wanted && !(how & PACKET_KEPT))
            memory_keep(*fd, false, p->session->origin.life != 0);
        return wanted;
    case 1:
        if (!wanted)
            *fd = new_memory(pk, how);
        return 1;
    case 2:
        return RDMAD_MSG_MAX_FDS + 1;
    default:
        *fd = PORTER_NO_PLACE;
        return 1;
    }
}

static uint32_t requests;

static void move_packet(struct input *in, struct program *p) {
    struct packet pk = {.header = {.magic = RDMAD_WIRE_MAGIC}};
    unsigned type = take(in), seq = take(in), how = take(in), runs = take(in) % 16;
    while (runs--)
        put_run(in, &pk);
    if (!program_is_heard(p))
        return;
    pk.header.type = (uint16_t)(how & PACKET_STRANGE ? type : 1 + type % (RDMAD_MSG_COUNT - 1));
    pk.header.version = how & PACKET_OLD      ? RDMAD_ABI_OLDEST
                        : p->session->greeted ? p->session->version
                                              : RDMAD_ABI_VERSION;
    pk.header.seq = seq ? ++requests << 8 | seq : 0; /* no two are the same */
    pk.header.length = (uint32_t)(sizeof(pk.header) + check_body_size(pk.header.type));
    if (how & PACKET_SHORT && pk.header.length > sizeof(pk.header))
        pk.header.length--;
    int fds[RDMAD_MSG_MAX_FDS] = {-1, -1, -1, -1};
    unsigned nfds = fds_of(p, &pk, how, fds);
    program_send(p, &pk, pk.header.length, fds, nfds);
    if (fds[0] >= 0)
        close(fds[0]);
}

static void say_hello(struct program *p) {
    const uint8_t hello[] = {RDMAD_MSG_HELLO - 1, 1, 0, 0};
    struct input in = {hello, hello + sizeof(hello)};
    move_packet(&in, p);
}

/* ---- what else happens ----------------------------------------------------------------------- */

/* What a program does with memory before it says that it is ready. */
static void move_prepare(struct input *in) {
    struct memory *m = memory_nth(take(in));
    unsigned how = take(in);
    if (!m || m->bytes > MEMORY_MOST)
        return;
    void *at = rdmad_memfd_map(m->fd, m->bytes, !m->ours);
    if (!at)
        return;
    if (!(how & PREPARE_NO_PAGES))
        must(rdmad_memfd_populate(at, m->bytes, !m->ours) == 0);
    munmap(at, m->bytes);
    if (how & PREPARE_HOLE) /* may be sealed already */
        fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096);
    if (!(how & PREPARE_NO_SEAL) && !m->ours)
        must((m->loose ? rdmad_memfd_seal(m->fd) : rdmad_memfd_freeze(m->fd)) == 0 ||
             errno == EPERM);
}

static void move_of_program(struct input *in, unsigned move, unsigned who) {
    struct program *p = &programs[who % PROGRAMS];
    bool lost = move == MOVE_GO && take(in) & 1;
    if (move == MOVE_CONNECT)
        program_connect(who);
    else if (move == MOVE_REFUSED)
        program_find_no_place(who);
    else if (move == MOVE_PACKET)
        move_packet(in, p);
    else if (move == MOVE_GO && p->connected)
        program_go(p, lost);
    else if (move == MOVE_UNSENT && p->connected)
        p->loses_fds = true;
    else if (move == MOVE_LAG && p->lags)
        program_read_again(p);
    else if (move == MOVE_LAG && p->connected)
        p->lags = true;
}

static void move_peer(unsigned nth, unsigned how) {
    if (how & PEER_COMES)
        guests_come(nth, how & PEER_LOST);
    else if (how & PEER_LEAVES)
        guests_leave(nth, how & PEER_LOST);
    else if (how & PEER_STOPS)
        guests_answer();
    else if (how & PEER_THERE)
        peers_event(nth, how);
    else
        peers_answer(nth, how);
}

static void move_of_world(struct input *in, unsigned move) {
    unsigned n;
    switch (move) {
    case MOVE_ANSWER:
    case MOVE_REFUSE:
        plane_answer(take(in), move == MOVE_REFUSE);
        break;
    case MOVE_WORK:
        for (n = take(in); n && work_step(); n--)
            ;
        break;
    case MOVE_PEER:
        n = take(in);
        move_peer(n, take(in));
        break;
    case MOVE_TIME:
        world_pass(NSEC_PER_USEC << take(in) % 36);
        break;
    case MOVE_PREPARE:
        move_prepare(in);
        break;
    case MOVE_LIFE:
        world_next_life();
        check_forget();
        break;
    case MOVE_STOP:
        st.stopping = true;
        break;
    case MOVE_DRAIN:
        st.draining = !st.draining;
        break;
    case MOVE_SETTLE:
        world_settle();
        break;
    default:
        break;
    }
}

static void everybody_reads(void) {
    st.draining = false;
    for (unsigned i = 0; i < PROGRAMS; i++)
        if (programs[i].connected)
            program_read_again(&programs[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input in = {data, data + size};
    unsigned how = take(&in);
    world_up(how);
    requests = 0;
    for (unsigned i = 0; i + 1 < PROGRAMS && !(how & REQUESTS_STRANGERS); i++) {
        program_connect(i);
        if (programs[i].connected)
            say_hello(&programs[i]);
    }
    for (unsigned moves = 0; in.at < in.end && moves < MOVES_MOST; moves++) {
        unsigned byte = take(&in), move = byte % MOVE_WHO % MOVES;
        move_of_program(&in, move, byte / MOVE_WHO);
        move_of_world(&in, move);
        check_tables();
    }
    everybody_reads();
    check_nobody_waits();
    check_tables();
    world_down();
    return 0;
}
