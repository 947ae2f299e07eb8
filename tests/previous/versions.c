/* SPDX-License-Identifier: MIT */
/*
 * versions.c - another range of versions for a daemon or a library than that of the build: what a
 * later release will speak. RDMAD_TEST_DROPPED: it speaks none of ours any more.
 */
#include "daemon/peer/wire/message.h"

const struct rdmad_versions rdmad_abi_versions = {
    RDMAD_TEST_DROPPED ? RDMAD_ABI_VERSION + 1 : RDMAD_ABI_OLDEST, RDMAD_ABI_VERSION + 1};
const struct rdmad_versions peer_versions = {
    RDMAD_TEST_DROPPED ? PEER_WIRE_VERSION + 1 : PEER_WIRE_OLDEST, PEER_WIRE_VERSION + 1};
