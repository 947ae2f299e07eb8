/* SPDX-License-Identifier: MIT */
/*
 * hold_record.c - the names of ops that hold memory.
 */
#include "libclient/memory/hold_record.h"
#include <rdmad/abi.h>

const char *rdmad_hold_opcode_name(uint8_t opcode) {
    static const char *const name[RDMAD_OP_COUNT] = {
        [RDMAD_OP_READ] = "READ", [RDMAD_OP_WRITE] = "WRITE", [RDMAD_OP_NOTIFY] = "NOTIFY",
        [RDMAD_OP_SEND] = "SEND", [RDMAD_OP_RECV] = "RECV",
    };
    return opcode < RDMAD_OP_COUNT && name[opcode] ? name[opcode] : "transfer";
}

const char *rdmad_hold_object_name(uint8_t opcode) {
    return opcode == RDMAD_OP_SEND || opcode == RDMAD_OP_RECV ? "channel" : "lease";
}
