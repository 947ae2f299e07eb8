/* SPDX-License-Identifier: MIT */
/*
 * facts.c - what ibv_devinfo -v tells, as names and values.
 *
 * Names are those of the verbs structs, so that they can be looked up in ibv_query_device_ex(3);
 * what belongs to a port starts with "port N ".
 */
#include "daemon/fabric/verbs/device/facts.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct named_bit {
    uint64_t bit;
    const char *name;
};

/* ---- adding -------------------------------------------------------------------------------- */

static bool __attribute__((format(printf, 3, 4)))
add(struct device_view *view, const char *name, const char *format, ...) {
    if (view->fact_count % 32 == 0) {
        size_t room = (view->fact_count + 32) * sizeof(*view->facts);
        struct device_fact *more = realloc(view->facts, room);
        if (!more)
            return false;
        view->facts = more;
    }
    struct device_fact *f = &view->facts[view->fact_count++];
    snprintf(f->name, sizeof(f->name), "%s", name);
    va_list ap;
    va_start(ap, format);
    vsnprintf(f->value, sizeof(f->value), format, ap);
    va_end(ap);
    return true;
}

static bool add_number(struct device_view *view, const char *name, uint64_t value) {
    return add(view, name, "%" PRIu64, value);
}

static bool add_hex(struct device_view *view, const char *name, uint64_t value) {
    return add(view, name, "0x%" PRIx64, value);
}

/* A set as its number, then each of its names as a fact of its own: "NAME" "yes". */
static bool add_bits(struct device_view *view, const char *name, uint64_t set,
                     const struct named_bit *bits, size_t count) {
    bool ok = add_hex(view, name, set);
    for (size_t i = 0; i < count && ok; i++) {
        char full[sizeof(view->facts->name)];
        snprintf(full, sizeof(full), "%s %s", name, bits[i].name);
        if (set & bits[i].bit)
            ok = add(view, full, "yes");
    }
    return ok;
}

/* ---- names --------------------------------------------------------------------------------- */

unsigned mtu_bytes(enum ibv_mtu mtu) {
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << (unsigned)mtu : 0;
}

const char *port_state_name(enum ibv_port_state state) {
    switch (state) {
    case IBV_PORT_NOP:
        return "NOP";
    case IBV_PORT_DOWN:
        return "DOWN";
    case IBV_PORT_INIT:
        return "INIT";
    case IBV_PORT_ARMED:
        return "ARMED";
    case IBV_PORT_ACTIVE:
        return "ACTIVE";
    case IBV_PORT_ACTIVE_DEFER:
        return "ACTIVE_DEFER";
    }
    return "unknown";
}

static const char *phys_state_name(uint8_t state) {
    static const char *const names[] = {
        "NOP",     "SLEEP", "POLLING", "DISABLED", "TRAINING", "LINK_UP", "LINK_ERROR_RECOVERY",
        "PHY_TEST"};
    return state < COUNT(names) ? names[state] : "unknown";
}

void port_speed_text(const struct ibv_port_attr *attr, char *out, size_t size) {
    static const struct {
        uint8_t code;
        const char *text;
    } widths[] = {{1, "1X"}, {2, "4X"}, {4, "8X"}, {8, "12X"}, {16, "2X"}},
      speeds[] = {{1, "2.5"},   {2, "5.0"},   {4, "10.0"},  {8, "10.0"},
                  {16, "14.0"}, {32, "25.0"}, {64, "50.0"}, {128, "100.0"}};
    const char *width = "?X", *speed = "?";
    for (size_t i = 0; i < COUNT(widths); i++) {
        if (widths[i].code == attr->active_width)
            width = widths[i].text;
    }
    for (size_t i = 0; i < COUNT(speeds); i++) {
        if (speeds[i].code == attr->active_speed)
            speed = speeds[i].text;
    }
    snprintf(out, size, "%s %s Gb/s", width, speed);
}

static const char *atomic_name(enum ibv_atomic_cap cap) {
    return cap == IBV_ATOMIC_GLOB  ? "ATOMIC_GLOB"
           : cap == IBV_ATOMIC_HCA ? "ATOMIC_HCA"
                                   : "ATOMIC_NONE";
}

/* ---- the device ---------------------------------------------------------------------------- */

static bool add_guid(struct device_view *view, const char *name, __be64 guid) {
    const uint8_t *b = (const uint8_t *)&guid;
    return add(view, name, "%02x%02x:%02x%02x:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3], b[4],
               b[5], b[6], b[7]);
}

static bool add_identity(struct device_view *view, const struct ibv_device_attr *a) {
    return add(view, "transport", "%s", view->transport) && add(view, "fw_ver", "%s", a->fw_ver) &&
           add_guid(view, "node_guid", a->node_guid) &&
           add_guid(view, "sys_image_guid", a->sys_image_guid) &&
           add_hex(view, "vendor_id", a->vendor_id) &&
           add_number(view, "vendor_part_id", a->vendor_part_id) &&
           add_hex(view, "hw_ver", a->hw_ver) &&
           add_number(view, "phys_port_cnt", a->phys_port_cnt) &&
           add_hex(view, "max_mr_size", a->max_mr_size) &&
           add_hex(view, "page_size_cap", a->page_size_cap);
}

static bool add_limits(struct device_view *view, const struct ibv_device_attr *a) {
#define LIMIT(field) \
    { #field, a->field }
    const struct {
        const char *name;
        int value;
    } limits[] = {
        LIMIT(max_qp),
        LIMIT(max_qp_wr),
        LIMIT(max_sge),
        LIMIT(max_sge_rd),
        LIMIT(max_cq),
        LIMIT(max_cqe),
        LIMIT(max_mr),
        LIMIT(max_pd),
        LIMIT(max_qp_rd_atom),
        LIMIT(max_ee_rd_atom),
        LIMIT(max_res_rd_atom),
        LIMIT(max_qp_init_rd_atom),
        LIMIT(max_ee_init_rd_atom),
        LIMIT(max_ee),
        LIMIT(max_rdd),
        LIMIT(max_mw),
        LIMIT(max_raw_ipv6_qp),
        LIMIT(max_raw_ethy_qp),
        LIMIT(max_mcast_grp),
        LIMIT(max_mcast_qp_attach),
        LIMIT(max_total_mcast_qp_attach),
        LIMIT(max_ah),
        LIMIT(max_fmr),
        LIMIT(max_map_per_fmr),
        LIMIT(max_srq),
        LIMIT(max_srq_wr),
        LIMIT(max_srq_sge),
    };
#undef LIMIT
    for (size_t i = 0; i < COUNT(limits); i++) {
        if (!add(view, limits[i].name, "%d", limits[i].value))
            return false;
    }
    return add(view, "atomic_cap", "%s", atomic_name(a->atomic_cap)) &&
           add_number(view, "max_pkeys", a->max_pkeys) &&
           add_number(view, "local_ca_ack_delay", a->local_ca_ack_delay);
}

static bool add_cap_flags(struct device_view *view, const struct ibv_device_attr_ex *attr) {
#define CAP(name) \
    { IBV_DEVICE_##name, #name }
    static const struct named_bit caps[] = {
        CAP(RESIZE_MAX_WR),      CAP(BAD_PKEY_CNTR),      CAP(BAD_QKEY_CNTR),
        CAP(RAW_MULTI),          CAP(AUTO_PATH_MIG),      CAP(CHANGE_PHY_PORT),
        CAP(UD_AV_PORT_ENFORCE), CAP(CURR_QP_STATE_MOD),  CAP(SHUTDOWN_PORT),
        CAP(INIT_TYPE),          CAP(PORT_ACTIVE_EVENT),  CAP(SYS_IMAGE_GUID),
        CAP(RC_RNR_NAK_GEN),     CAP(SRQ_RESIZE),         CAP(N_NOTIFY_CQ),
        CAP(MEM_WINDOW),         CAP(UD_IP_CSUM),         CAP(XRC),
        CAP(MEM_MGT_EXTENSIONS), CAP(MEM_WINDOW_TYPE_2A), CAP(MEM_WINDOW_TYPE_2B),
        CAP(RC_IP_CSUM),         CAP(RAW_IP_CSUM),        CAP(MANAGED_FLOW_STEERING),
    };
    static const struct named_bit caps_ex[] = {
        CAP(RAW_SCATTER_FCS),
        CAP(PCI_WRITE_END_PADDING),
    };
#undef CAP
    return add_bits(view, "device_cap_flags", attr->orig_attr.device_cap_flags, caps,
                    COUNT(caps)) &&
           add_bits(view, "device_cap_flags_ex", attr->device_cap_flags_ex, caps_ex,
                    COUNT(caps_ex));
}

static bool add_odp(struct device_view *view, const struct ibv_device_attr_ex *attr) {
    static const struct named_bit general[] = {
        {IBV_ODP_SUPPORT, "ODP_SUPPORT"},
        {IBV_ODP_SUPPORT_IMPLICIT, "ODP_SUPPORT_IMPLICIT"},
    };
    static const struct named_bit ops[] = {
        {IBV_ODP_SUPPORT_SEND, "SEND"},     {IBV_ODP_SUPPORT_RECV, "RECV"},
        {IBV_ODP_SUPPORT_WRITE, "WRITE"},   {IBV_ODP_SUPPORT_READ, "READ"},
        {IBV_ODP_SUPPORT_ATOMIC, "ATOMIC"}, {IBV_ODP_SUPPORT_SRQ_RECV, "SRQ_RECV"},
    };
    const struct ibv_odp_caps *odp = &attr->odp_caps;
    return add_bits(view, "general_odp_caps", odp->general_caps, general, COUNT(general)) &&
           add_bits(view, "rc_odp_caps", odp->per_transport_caps.rc_odp_caps, ops, COUNT(ops)) &&
           add_bits(view, "uc_odp_caps", odp->per_transport_caps.uc_odp_caps, ops, COUNT(ops)) &&
           add_bits(view, "ud_odp_caps", odp->per_transport_caps.ud_odp_caps, ops, COUNT(ops)) &&
           add_bits(view, "xrc_odp_caps", attr->xrc_odp_caps, ops, COUNT(ops));
}

static bool add_offloads(struct device_view *view, const struct ibv_device_attr_ex *a) {
    const struct ibv_packet_pacing_caps *pacing = &a->packet_pacing_caps;
    return add_hex(view, "completion_timestamp_mask", a->completion_timestamp_mask) &&
           add(view, "hca_core_clock", "%" PRIu64 " kHz", a->hca_core_clock) &&
           add_number(view, "tso max_tso", a->tso_caps.max_tso) &&
           add_hex(view, "tso supported_qpts", a->tso_caps.supported_qpts) &&
           add_number(view, "rss max_rwq_indirection_tables",
                      a->rss_caps.max_rwq_indirection_tables) &&
           add_number(view, "rss max_rwq_indirection_table_size",
                      a->rss_caps.max_rwq_indirection_table_size) &&
           add_hex(view, "rss rx_hash_function", a->rss_caps.rx_hash_function) &&
           add_hex(view, "rss rx_hash_fields_mask", a->rss_caps.rx_hash_fields_mask) &&
           add_hex(view, "rss supported_qpts", a->rss_caps.supported_qpts) &&
           add_number(view, "max_wq_type_rq", a->max_wq_type_rq) &&
           add(view, "pacing qp_rate_limit_min", "%" PRIu32 " kb/s", pacing->qp_rate_limit_min) &&
           add(view, "pacing qp_rate_limit_max", "%" PRIu32 " kb/s", pacing->qp_rate_limit_max) &&
           add_hex(view, "pacing supported_qpts", pacing->supported_qpts) &&
           add_hex(view, "raw_packet_caps", a->raw_packet_caps);
}

static bool add_rest(struct device_view *view, const struct ibv_device_attr_ex *a) {
    return add_number(view, "tm max_rndv_hdr_size", a->tm_caps.max_rndv_hdr_size) &&
           add_number(view, "tm max_num_tags", a->tm_caps.max_num_tags) &&
           add_hex(view, "tm flags", a->tm_caps.flags) &&
           add_number(view, "tm max_ops", a->tm_caps.max_ops) &&
           add_number(view, "tm max_sge", a->tm_caps.max_sge) &&
           add_number(view, "cq_mod max_cq_count", a->cq_mod_caps.max_cq_count) &&
           add(view, "cq_mod max_cq_period", "%u us", a->cq_mod_caps.max_cq_period) &&
           add_number(view, "max_dm_size", a->max_dm_size) &&
           add_hex(view, "pci_atomic fetch_add", a->pci_atomic_caps.fetch_add) &&
           add_hex(view, "pci_atomic swap", a->pci_atomic_caps.swap) &&
           add_hex(view, "pci_atomic compare_swap", a->pci_atomic_caps.compare_swap);
}

bool facts_of_device(struct device_view *view, struct ibv_context *context,
                     const struct ibv_device_attr_ex *attr) {
    return add_identity(view, &attr->orig_attr) && add_limits(view, &attr->orig_attr) &&
           add_cap_flags(view, attr) && add_odp(view, attr) && add_offloads(view, attr) &&
           add_rest(view, attr) && add(view, "num_comp_vectors", "%d", context->num_comp_vectors);
}

/* ---- a port -------------------------------------------------------------------------------- */

static const char *link_layer_name(uint8_t layer) {
    return layer == IBV_LINK_LAYER_ETHERNET     ? "Ethernet"
           : layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand"
                                                : "unspecified";
}

bool facts_of_port(struct device_view *view, unsigned number, const struct ibv_port_attr *p) {
    char speed[32];
    port_speed_text(p, speed, sizeof(speed));
#define PORT(field) \
    { #field, (uint64_t)p->field }
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        PORT(gid_tbl_len),    PORT(max_msg_sz),
        PORT(port_cap_flags), PORT(port_cap_flags2),
        PORT(bad_pkey_cntr),  PORT(lid),
        PORT(qkey_viol_cntr), PORT(pkey_tbl_len),
        PORT(sm_lid),         PORT(lmc),
        PORT(max_vl_num),     PORT(sm_sl),
        PORT(subnet_timeout), PORT(init_type_reply),
    };
#undef PORT
    const struct {
        const char *name, *value;
    } texts[] = {
        {"state", port_state_name(p->state)},
        {"phys_state", phys_state_name(p->phys_state)},
        {"link_layer", link_layer_name(p->link_layer)},
        {"speed", speed},
    };
    char name[sizeof(view->facts->name)];
    bool ok = true;
    for (size_t i = 0; i < COUNT(texts) && ok; i++) {
        snprintf(name, sizeof(name), "port %u %s", number, texts[i].name);
        ok = add(view, name, "%s", texts[i].value);
    }
    snprintf(name, sizeof(name), "port %u max_mtu", number);
    ok = ok && add_number(view, name, mtu_bytes(p->max_mtu));
    snprintf(name, sizeof(name), "port %u active_mtu", number);
    ok = ok && add_number(view, name, mtu_bytes(p->active_mtu));
    for (size_t i = 0; i < COUNT(numbers) && ok; i++) {
        snprintf(name, sizeof(name), "port %u %s", number, numbers[i].name);
        ok = strstr(numbers[i].name, "flags") ? add_hex(view, name, numbers[i].value)
                                              : add_number(view, name, numbers[i].value);
    }
    return ok;
}
