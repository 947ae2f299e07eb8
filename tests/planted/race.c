/* SPDX-License-Identifier: MIT */
/*
 * race.c - a planted fault: two threads add to one plain integer. Exits 0 when nobody looks.
 */
#include <pthread.h>
#include <stddef.h>

static long shared;

static void *add(void *arg) {
    for (int i = 0; i < 100000; i++)
        shared++;
    return arg;
}

int main(void) {
    pthread_t a, b;
    if (pthread_create(&a, NULL, add, NULL) || pthread_create(&b, NULL, add, NULL))
        return 0; /* then the fault is not noticed, and planted.sh says so */
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    return 0;
}
