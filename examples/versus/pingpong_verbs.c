/* SPDX-License-Identifier: MIT */
/* pingpong_verbs ADDRESS [connect] - pingpong_rdmad with librdmacm and libibverbs, by their
 * shortest way: a message that comes before its receive is posted is retried by the device. */
#include <err.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>

enum { ROUNDS = 1000 };

static struct rdma_cm_id *endpoint(const char *address, int passive) {
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .sq_sig_all = 1};
    struct rdma_cm_id *id;
    hints.ai_flags = passive ? RAI_PASSIVE : 0;
    if (rdma_getaddrinfo(address, "7472", &hints, &info))
        err(1, "rdma_getaddrinfo");
    if (rdma_create_ep(&id, info, NULL, &attr))
        err(1, "rdma_create_ep");
    rdma_freeaddrinfo(info);
    return id;
}

static void post_receive(struct rdma_cm_id *id, char *buf, struct ibv_mr *mr) {
    if (rdma_post_recv(id, NULL, buf, 64, mr))
        err(1, "rdma_post_recv");
}

static void await(struct rdma_cm_id *id) {
    struct ibv_wc wc;
    if (rdma_get_recv_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
        errx(1, "receive: %s", ibv_wc_status_str(wc.status));
}

static void send_one(struct rdma_cm_id *id, char *buf, struct ibv_mr *mr) {
    struct ibv_wc wc;
    if (rdma_post_send(id, NULL, buf, 64, mr, 0))
        err(1, "rdma_post_send");
    if (rdma_get_send_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
        errx(1, "send: %s", ibv_wc_status_str(wc.status));
}

int main(int argc, char **argv) {
    static char in[64], out[64];
    struct rdma_cm_id *listener = NULL, *id;
    struct rdma_conn_param param = {.rnr_retry_count = 6};
    if (argc != 2 && argc != 3)
        errx(2, "usage: pingpong_verbs ADDRESS [connect]");
    if (argc == 3) {
        id = endpoint(argv[1], 0);
    } else {
        listener = endpoint(argv[1], 1);
        if (rdma_listen(listener, 1))
            err(1, "rdma_listen");
        printf("listening\n");
        fflush(stdout);
        if (rdma_get_request(listener, &id))
            err(1, "rdma_get_request");
    }
    struct ibv_mr *mr_in = rdma_reg_msgs(id, in, sizeof(in));
    struct ibv_mr *mr_out = rdma_reg_msgs(id, out, sizeof(out));
    if (!mr_in || !mr_out)
        err(1, "rdma_reg_msgs");
    post_receive(id, in, mr_in);
    if (argc == 3 ? rdma_connect(id, &param) : rdma_accept(id, &param))
        err(1, "connect");
    for (int i = 0; i < ROUNDS; i++) {
        if (argc == 3)
            send_one(id, out, mr_out);
        await(id);
        if (i + 1 < ROUNDS)
            post_receive(id, in, mr_in);
        if (argc == 2)
            send_one(id, out, mr_out);
    }
    printf("%d rounds\n", ROUNDS);
    rdma_disconnect(id);
    rdma_dereg_mr(mr_in);
    rdma_dereg_mr(mr_out);
    rdma_destroy_ep(id);
    if (listener)
        rdma_destroy_ep(listener);
    return 0;
}
