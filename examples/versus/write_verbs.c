/* SPDX-License-Identifier: MIT */
/* write_verbs ADDRESS [connect] - write_rdmad with librdmacm and libibverbs, by their shortest way:
 * one client, no time-outs, and the memory can be written as long as the connection lasts. */
#include <err.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <string.h>

struct remote {
    uint64_t address;
    uint32_t rkey;
};

static struct rdma_cm_id *endpoint(const char *address, int passive) {
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .sq_sig_all = 1};
    struct rdma_cm_id *id;
    hints.ai_flags = passive ? RAI_PASSIVE : 0;
    if (rdma_getaddrinfo(address, "7471", &hints, &info))
        err(1, "rdma_getaddrinfo");
    if (rdma_create_ep(&id, info, NULL, &attr))
        err(1, "rdma_create_ep");
    rdma_freeaddrinfo(info);
    return id;
}

static void owner(const char *address) {
    static char buf[64];
    struct rdma_cm_id *listener = endpoint(address, 1), *id;
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
    struct rdma_cm_event *event;
    struct remote remote;
    if (rdma_listen(listener, 1))
        err(1, "rdma_listen");
    printf("listening\n");
    fflush(stdout);
    if (rdma_get_request(listener, &id))
        err(1, "rdma_get_request");
    struct ibv_mr *mr = rdma_reg_write(id, buf, sizeof(buf));
    if (!mr)
        err(1, "rdma_reg_write");
    remote.address = (uintptr_t)buf;
    remote.rkey = mr->rkey;
    param.private_data = &remote;
    param.private_data_len = sizeof(remote);
    if (rdma_accept(id, &param))
        err(1, "rdma_accept");
    do {
        if (rdma_get_cm_event(id->channel, &event))
            err(1, "rdma_get_cm_event");
        int type = event->event;
        rdma_ack_cm_event(event);
        if (type == RDMA_CM_EVENT_DISCONNECTED)
            break;
    } while (1);
    rdma_dereg_mr(mr);
    printf("%.64s\n", buf);
    rdma_destroy_ep(id);
    rdma_destroy_ep(listener);
}

static void writer(const char *address) {
    char buf[64] = "hello";
    struct rdma_cm_id *id = endpoint(address, 0);
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
    struct remote remote;
    struct ibv_wc wc;
    struct ibv_mr *mr = rdma_reg_msgs(id, buf, sizeof(buf));
    if (!mr)
        err(1, "rdma_reg_msgs");
    if (rdma_connect(id, &param))
        err(1, "rdma_connect");
    if (id->event->param.conn.private_data_len < sizeof(remote))
        errx(1, "no address came");
    memcpy(&remote, id->event->param.conn.private_data, sizeof(remote));
    if (rdma_post_write(id, NULL, buf, 6, mr, 0, remote.address, remote.rkey))
        err(1, "rdma_post_write");
    if (rdma_get_send_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
        errx(1, "write: %s", ibv_wc_status_str(wc.status));
    rdma_disconnect(id);
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);
}

int main(int argc, char **argv) {
    if (argc == 2)
        owner(argv[1]);
    else if (argc == 3)
        writer(argv[1]);
    else
        errx(2, "usage: write_verbs ADDRESS [connect]");
    return 0;
}
