/* SPDX-License-Identifier: MIT */
/*
 * cursor.c - the fields of a frame, written and read.
 */
#include "daemon/peer/wire/cursor.h"
#include <string.h>

/* The next n bytes of the frame, NULL when it is too short. */
static uint8_t *cursor_step(struct cursor *c, size_t n) {
    uint8_t *p = c->at;
    if (c->bad || (size_t)(c->end - p) < n) {
        c->bad = true;
        return NULL;
    }
    c->at += n;
    return p;
}

static uint64_t cursor_number(struct cursor *c, uint64_t value, size_t n) {
    uint8_t *p = cursor_step(c, n);
    if (!p)
        return 0;
    if (!c->reading) {
        for (size_t i = 0; i < n; i++)
            p[i] = (uint8_t)(value >> (8 * i));
        return value;
    }
    value = 0;
    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

void cursor_u16(struct cursor *c, uint16_t *v) {
    *v = (uint16_t)cursor_number(c, *v, 2);
}
void cursor_u32(struct cursor *c, uint32_t *v) {
    *v = (uint32_t)cursor_number(c, *v, 4);
}
void cursor_i32(struct cursor *c, int32_t *v) {
    *v = (int32_t)(uint32_t)cursor_number(c, (uint32_t)*v, 4);
}
void cursor_u64(struct cursor *c, uint64_t *v) {
    *v = cursor_number(c, *v, 8);
}

void cursor_bytes(struct cursor *c, uint8_t *v, size_t n) {
    uint8_t *p = cursor_step(c, n);
    if (p && c->reading)
        memcpy(v, p, n);
    else if (p)
        memcpy(p, v, n);
}

void cursor_text(struct cursor *c, char *v, size_t size) {
    if (!c->reading) {
        size_t n = strnlen(v, size - 1);
        uint8_t *p = cursor_step(c, size);
        if (p) {
            memset(p, 0, size);
            memcpy(p, v, n);
        }
        return;
    }
    cursor_bytes(c, (uint8_t *)v, size);
    size_t n = strnlen(v, size);
    for (size_t i = n; i < size; i++)
        c->bad |= v[i] != 0;
    c->bad |= n == size;
    v[size - 1] = '\0';
    for (size_t i = 0; i < n; i++)
        if ((uint8_t)v[i] < 0x20 || v[i] == 0x7f)
            v[i] = '?';
}

void cursor_blob(struct cursor *c, struct fabric_blob *v) {
    cursor_bytes(c, &v->size, 1);
    c->bad |= v->size > sizeof(v->bytes);
    if (c->bad)
        return;
    if (!c->reading)
        memset(v->bytes + v->size, 0, sizeof(v->bytes) - v->size);
    cursor_bytes(c, v->bytes, sizeof(v->bytes));
    for (size_t i = v->size; i < sizeof(v->bytes); i++)
        c->bad |= v->bytes[i] != 0;
}
