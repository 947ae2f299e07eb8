/* SPDX-License-Identifier: MIT */
/*
 * mailbox - examples/mailbox.c in C++: leases 4 KiB to whoever has the URI, prints the URI, and
 * shows what was written. examples/hello writes "hello".
 *
 *     g++ -std=c++20 mailbox.cpp -o mailbox $(pkg-config --cflags --libs rdmad)
 */
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <rdmad/rdmad.hpp>
#include <thread>

static void run() {
    rdmad::session s;
    rdmad::pool pool = s.make_pool(1 << 20);
    rdmad::buffer box = pool.alloc(4096);
    std::span<char> text = box.as<char>();
    std::fill(text.begin(), text.end(), '\0');
    rdmad::lease_terms terms;
    terms.rights = RDMAD_RIGHT_WRITE;
    rdmad::lease lease = s.grant(text.first(4095), terms); /* the last byte stays NUL */
    std::printf("%s\n", lease.uri());
    std::fflush(stdout);

    std::atomic_ref<char> first(text[0]);
    while (first.load(std::memory_order_acquire) == '\0' && lease.info().ttl_ms)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lease.revoke(); /* after that no writer can be half way through */
    std::printf("%s\n", text[0] ? text.data() : "(nothing came)");
}

int main() {
    try {
        run();
    } catch (const std::exception &e) {
        std::fprintf(stderr, "mailbox: %s\n", e.what());
        return 1;
    }
    return 0;
}
