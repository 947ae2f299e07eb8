/* SPDX-License-Identifier: MIT */
/* handover_verbs ADDRESS [connect] - handover_rdmad with librdmacm and libibverbs, by their
 * shortest way: no budget, no time-out, and a requester that dies keeps what it asked for. */
#include <err.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 4096 };

struct message {
    uint64_t bytes, address;
    uint32_t rkey;
};

struct side {
    struct rdma_cm_id *id;
    struct message *in, *out;
    struct ibv_mr *mr_in, *mr_out;
};

static struct rdma_cm_id *endpoint(const char *address, int passive) {
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .sq_sig_all = 1};
    struct rdma_cm_id *id;
    hints.ai_flags = passive ? RAI_PASSIVE : 0;
    if (rdma_getaddrinfo(address, "7473", &hints, &info))
        err(1, "rdma_getaddrinfo");
    if (rdma_create_ep(&id, info, NULL, &attr))
        err(1, "rdma_create_ep");
    rdma_freeaddrinfo(info);
    return id;
}

static void completed(int n, const struct ibv_wc *wc, const char *what) {
    if (n != 1 || wc->status != IBV_WC_SUCCESS)
        errx(1, "%s: %s", what, ibv_wc_status_str(wc->status));
}

static void prepare(struct side *s) {
    static struct message in, out;
    s->in = &in;
    s->out = &out;
    s->mr_in = rdma_reg_msgs(s->id, &in, sizeof(in));
    s->mr_out = rdma_reg_msgs(s->id, &out, sizeof(out));
    if (!s->mr_in || !s->mr_out)
        err(1, "rdma_reg_msgs");
    if (rdma_post_recv(s->id, NULL, &in, sizeof(in), s->mr_in))
        err(1, "rdma_post_recv");
}

static void send_message(struct side *s) {
    struct ibv_wc wc = {0};
    if (rdma_post_send(s->id, NULL, s->out, sizeof(*s->out), s->mr_out, 0))
        err(1, "rdma_post_send");
    completed(rdma_get_send_comp(s->id, &wc), &wc, "send");
}

static void await_message(struct side *s) {
    struct ibv_wc wc = {0};
    completed(rdma_get_recv_comp(s->id, &wc), &wc, "receive");
    if (wc.byte_len != sizeof(*s->in))
        errx(1, "a message of %u bytes", wc.byte_len);
}

static void finish(struct side *s) {
    rdma_disconnect(s->id);
    rdma_dereg_mr(s->mr_in);
    rdma_dereg_mr(s->mr_out);
    rdma_destroy_ep(s->id);
}

static void owner(const char *address) {
    struct rdma_cm_id *listener = endpoint(address, 1);
    struct rdma_conn_param param = {.responder_resources = 1, .rnr_retry_count = 6};
    struct side s;
    if (rdma_listen(listener, 1))
        err(1, "rdma_listen");
    printf("listening\n");
    fflush(stdout);
    if (rdma_get_request(listener, &s.id))
        err(1, "rdma_get_request");
    prepare(&s);
    if (rdma_accept(s.id, &param))
        err(1, "rdma_accept");
    await_message(&s);
    uint64_t bytes = s.in->bytes;
    if (bytes == 0 || bytes > 1 << 20)
        errx(1, "%llu bytes are too many", (unsigned long long)bytes);
    char *buf = malloc(bytes);
    struct ibv_mr *mr = buf ? rdma_reg_write(s.id, buf, bytes) : NULL;
    if (!mr)
        err(1, "rdma_reg_write");
    if (rdma_post_recv(s.id, NULL, s.in, sizeof(*s.in), s.mr_in))
        err(1, "rdma_post_recv");
    *s.out = (struct message){.bytes = bytes, .address = (uintptr_t)buf, .rkey = mr->rkey};
    send_message(&s);
    await_message(&s); /* it is filled */
    rdma_dereg_mr(mr); /* and nobody writes to it any more */
    printf("%llu bytes of %c\n", (unsigned long long)bytes, *buf);
    free(buf);
    finish(&s);
    rdma_destroy_ep(listener);
}

static void requester(const char *address) {
    static char buf[BYTES];
    struct rdma_conn_param param = {.initiator_depth = 1, .rnr_retry_count = 6};
    struct ibv_wc wc = {0};
    struct side s = {.id = endpoint(address, 0)};
    memset(buf, 'x', BYTES);
    prepare(&s);
    struct ibv_mr *mr = rdma_reg_msgs(s.id, buf, BYTES);
    if (!mr)
        err(1, "rdma_reg_msgs");
    if (rdma_connect(s.id, &param))
        err(1, "rdma_connect");
    *s.out = (struct message){.bytes = BYTES};
    send_message(&s);
    await_message(&s);
    if (rdma_post_write(s.id, NULL, buf, BYTES, mr, 0, s.in->address, s.in->rkey))
        err(1, "rdma_post_write");
    completed(rdma_get_send_comp(s.id, &wc), &wc, "write");
    send_message(&s);
    rdma_dereg_mr(mr);
    finish(&s);
}

int main(int argc, char **argv) {
    if (argc == 2)
        owner(argv[1]);
    else if (argc == 3)
        requester(argv[1]);
    else
        errx(2, "usage: handover_verbs ADDRESS [connect]");
    return 0;
}
