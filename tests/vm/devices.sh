#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# devices.sh [INTERFACE ADDRESS]: Soft-RoCE devices, in the guest. Without arguments two, as of two
# hosts: rxe0 over va (10.77.0.1) and rxe1 over vb (10.77.0.2), the ends of a veth pair. With arguments
# one, rxe0, over an interface that is there. What is there already is put right, so that a test finds
# them whatever the one before did.
#
# Both ends of the pair are in one network namespace, for rxe knows only one. What rxe sends goes out
# of its interface whatever the routes say, so `ip link set va down` and `tc qdisc add dev va root
# netem` do between the two what a bad cable does; what TCP sends between the two addresses stays on
# lo. The kernel must be told to take packets from its own addresses.
set -euo pipefail

setting() { echo "$2" >"/proc/sys/net/$1"; }

# in_order INTERFACE: each flow of what comes in is taken by one processor. Of a sender that moves to another
# one its packets overtake each other, and rxe counts each gap as one of its few tries to reach the peer.
# (One processor for all flows is too slow for forty links.)
in_order() {
    printf '%x\n' $(((1 << $(nproc)) - 1)) >"/sys/class/net/$1/queues/rx-0/rps_cpus"
}

device() { # NAME INTERFACE ADDRESS
    setting "ipv6/conf/$2/accept_dad" 0
    setting "ipv4/conf/$2/rp_filter" 0
    tc qdisc del dev "$2" root 2>/dev/null || true
    nft delete table inet wire 2>/dev/null || true # test_partition's
    ip link set "$2" up
    ip address replace "$3/24" dev "$2"
    [ -e "/sys/class/infiniband/$1" ] || rdma link add "$1" type rxe netdev "$2"
}

modprobe -a rdma_rxe ib_uverbs rdma_ucm
modprobe -qa crc32_generic || true # rxe's, where it is a module of its own

if [ $# = 2 ]; then
    modprobe virtio_net
    for ((i = 0; i < 100; i++)); do
        [ ! -e "/sys/class/net/$1" ] || break
        sleep 0.05
    done
    device rxe0 "$1" "$2"
    exit
fi
modprobe -a veth
setting ipv4/conf/all/accept_local 1
setting ipv4/conf/all/rp_filter 0
setting core/netdev_max_backlog 100000
# A RoCE packet of 4096 bytes, the largest RDMA MTU, and its headers fit.
[ -e /sys/class/net/va ] || ip link add va mtu 4200 type veth peer name vb mtu 4200
in_order va
in_order vb
device rxe0 va 10.77.0.1
device rxe1 vb 10.77.0.2
chmod 666 /dev/infiniband/uverbs* /dev/infiniband/rdma_cm
# A port is up a moment after its interface.
for ((i = 0; i < 100; i++)); do
    [ "$(rdma link show | grep -c 'state ACTIVE')" != 2 ] || exit 0
    sleep 0.05
done
echo "devices.sh: not all ports come up:" >&2
rdma link show >&2
exit 1
