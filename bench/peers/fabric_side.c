/* SPDX-License-Identifier: MIT */
/*
 * fabric_side.c - libfabric's message endpoints over tcp: listen or connect, swap the address and
 * key of one registered memory as connection data, then one-sided operations.
 */
#include "fabric_side.h"

#include <arpa/inet.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct greeting { /* connection data, both ways */
    uint64_t address, key;
};

static void must(ssize_t rc, const char *what) {
    if (rc >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, fi_strerror((int)-rc));
    exit(1);
}

static struct fi_info *tcp_info(const struct sockaddr_in *to) {
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    if (!hints)
        exit(1);
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_MSG;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->fabric_attr->prov_name = strdup("tcp");
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
    char port[16];
    snprintf(port, sizeof(port), "%u", to ? ntohs(to->sin_port) : 0);
    must(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", port, to ? 0 : FI_SOURCE, hints, &info),
         "fi_getinfo");
    fi_freeinfo(hints);
    return info;
}

static void open_domain(struct fabric_side *s, struct fi_info *info) {
    must(fi_domain(s->fabric, info, &s->domain, NULL), "fi_domain");
    s->memory = mmap(NULL, s->size, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (s->memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    must(fi_mr_reg(s->domain, s->memory, s->size,
                   FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &s->mr, NULL),
         "fi_mr_reg");
}

static void open_endpoint(struct fabric_side *s, struct fi_info *info) {
    struct fi_cq_attr attr = {.size = 4096, .format = FI_CQ_FORMAT_CONTEXT};
    must(fi_endpoint(s->domain, info, &s->ep, NULL), "fi_endpoint");
    must(fi_cq_open(s->domain, &attr, &s->cq, NULL), "fi_cq_open");
    must(fi_ep_bind(s->ep, &s->eq->fid, 0), "fi_ep_bind eq");
    must(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind cq");
    must(fi_enable(s->ep), "fi_enable");
}

static struct greeting our_greeting(const struct fabric_side *s) {
    int virt = (s->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    return (struct greeting){virt ? (uint64_t)(uintptr_t)s->memory : 0, fi_mr_key(s->mr)};
}

/* Waits for an event; what the other side said with it, if anything, goes to the side. */
static struct fi_info *await(struct fabric_side *s, uint32_t wanted) {
    struct {
        struct fi_eq_cm_entry entry;
        struct greeting greeting;
    } m;
    uint32_t event = 0;
    ssize_t n = fi_eq_sread(s->eq, &event, &m, sizeof(m), 10000, 0);
    if (n == -FI_EAVAIL) {
        struct fi_eq_err_entry err = {0};
        fi_eq_readerr(s->eq, &err, 0);
        must(-err.err, "connection");
    }
    must(n, "fi_eq_sread");
    if (event != wanted) {
        fprintf(stderr, "event %u instead of %u\n", event, wanted);
        exit(1);
    }
    if ((size_t)n >= sizeof(m.entry) + sizeof(m.greeting)) {
        struct greeting g;
        memcpy(&g, m.entry.data, sizeof(g));
        s->far_address = g.address;
        s->far_key = g.key;
    }
    return m.entry.info;
}

void fabric_listen(struct fabric_side *s, size_t size, struct sockaddr_in *bound) {
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    size_t length = sizeof(*bound);
    *s = (struct fabric_side){.size = size, .info = tcp_info(NULL)};
    must(fi_fabric(s->info->fabric_attr, &s->fabric, NULL), "fi_fabric");
    must(fi_eq_open(s->fabric, &attr, &s->eq, NULL), "fi_eq_open");
    must(fi_passive_ep(s->fabric, s->info, &s->pep, NULL), "fi_passive_ep");
    must(fi_pep_bind(s->pep, &s->eq->fid, 0), "fi_pep_bind");
    must(fi_listen(s->pep), "fi_listen");
    must(fi_getname(&s->pep->fid, bound, &length), "fi_getname");
}

void fabric_accept(struct fabric_side *s) {
    struct fi_info *request = await(s, FI_CONNREQ);
    open_domain(s, request);
    open_endpoint(s, request);
    struct greeting g = our_greeting(s);
    must(fi_accept(s->ep, &g, sizeof(g)), "fi_accept");
    await(s, FI_CONNECTED);
    fi_freeinfo(request);
}

void fabric_connect(struct fabric_side *s, size_t size, const struct sockaddr_in *to) {
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    *s = (struct fabric_side){.size = size, .info = tcp_info(to)};
    must(fi_fabric(s->info->fabric_attr, &s->fabric, NULL), "fi_fabric");
    must(fi_eq_open(s->fabric, &attr, &s->eq, NULL), "fi_eq_open");
    open_domain(s, s->info);
    open_endpoint(s, s->info);
    struct greeting g = our_greeting(s);
    must(fi_connect(s->ep, to, &g, sizeof(g)), "fi_connect");
    await(s, FI_CONNECTED);
}

void fabric_write(struct fabric_side *s, size_t offset, size_t bytes) {
    ssize_t rc;
    while ((rc = fi_write(s->ep, s->memory + offset, bytes, fi_mr_desc(s->mr), 0, s->far_address,
                          s->far_key, NULL)) == -FI_EAGAIN)
        must(fi_cq_read(s->cq, NULL, 0) == -FI_EAVAIL ? -FI_EIO : 0, "a write");
    must(rc, "fi_write");
}

void fabric_read(struct fabric_side *s, size_t offset, size_t bytes) {
    ssize_t rc;
    while ((rc = fi_read(s->ep, s->memory + offset, bytes, fi_mr_desc(s->mr), 0, s->far_address,
                         s->far_key, NULL)) == -FI_EAGAIN)
        must(fi_cq_read(s->cq, NULL, 0) == -FI_EAVAIL ? -FI_EIO : 0, "a read");
    must(rc, "fi_read");
}

unsigned fabric_reap(struct fabric_side *s) {
    struct fi_cq_entry entries[64];
    ssize_t n = fi_cq_read(s->cq, entries, 64);
    if (n == -FI_EAGAIN)
        return 0;
    must(n, "fi_cq_read");
    return (unsigned)n;
}

int fabric_closed(struct fabric_side *s) {
    struct fi_eq_cm_entry entry;
    uint32_t event = 0;
    ssize_t n = fi_eq_read(s->eq, &event, &entry, sizeof(entry), 0);
    return n == -FI_EAVAIL || (n > 0 && event == FI_SHUTDOWN);
}

void fabric_shutdown(struct fabric_side *s) {
    fi_shutdown(s->ep, 0);
}
