# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# kernel.sh: the guest's kernel and initrd, made once and kept. To be sourced, after scripts/deps.sh.
#
# Debian's kernel package is downloaded, not installed: of its 400 MB the kernel and some forty
# modules stay. In the cache, KERNEL-HASH/ has vmlinuz, modules/ (a tree for modprobe -d) and
# initrd-HASH; the hashes are those of the scripts by which it was made. A symbolic link for each name
# by which a kernel was asked for leads there. The cache may be removed at any time.

vm_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# What the initrd needs to reach the host's files, and what is there for modprobe in the guest (CRIU asks
# for those of sockets and for nf_tables, test_partition for the two of nftables). Those after "--" are not in every kernel.
vm_boot_modules=(virtio_pci virtio_console 9pnet_virtio 9p overlay)
vm_modules=(rdma_rxe ib_uverbs rdma_ucm veth virtio_net sch_netem
    unix_diag tcp_diag udp_diag netlink_diag af_packet_diag nf_tables nft_numgen -- crc32_generic)

# vm_resolve PACKAGE: the package of the kernel itself, if that is one that only depends on it.
vm_resolve() {
    local real
    real=$(apt-cache depends --important "$1" 2>/dev/null |
        awk '$1 == "Depends:" && $2 ~ /^linux-image-/ { print $2; exit }')
    if [ -n "$real" ]; then
        echo "$real"
    elif [ -n "$(apt-cache show "$1" 2>/dev/null)" ]; then
        echo "$1"
    fi
}

# vm_download PACKAGE: into the current directory. Prints the name of the kernel package.
vm_download() {
    local package try
    for try in with-these-lists with-new-lists; do
        if [ "$try" = with-new-lists ]; then
            apt-get update -q >&2 </dev/null || true
        fi
        package=$(vm_resolve "$1")
        if [ -n "$package" ] &&
            apt-get download -q -o APT::Sandbox::User=root "$package" >&2 </dev/null; then
            echo "$package"
            return
        fi
    done
    die "cannot download $1; apt-get says why above (apt-cache search linux-image lists kernels)"
}

# vm_trim KERNEL DIRECTORY: from ./all, the whole package unpacked, what the guest needs.
vm_trim() {
    local kernel=$1 to=$2 module optional="" file copy
    [ -e all/lib ] || ln -s usr/lib all/lib
    depmod -b "$PWD/all" "$kernel"
    mkdir -p "$to/modules/lib/modules/$kernel"
    cp all/boot/vmlinuz-* "$to/vmlinuz"
    cp "all/lib/modules/$kernel"/modules.{builtin,builtin.modinfo,order} "$to/modules/lib/modules/$kernel/"
    for module in "${vm_boot_modules[@]}" "${vm_modules[@]}"; do
        if [ "$module" = -- ]; then
            optional=1
        elif ! modprobe -d "$PWD/all" -S "$kernel" --show-depends "$module" 2>"$to/said"; then
            [ -n "$optional" ] || { cat "$to/said" >&2; die "kernel $kernel has no module $module"; }
        fi
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$to/list"
    while IFS= read -r file; do
        copy=$to/modules/lib/modules/$kernel/${file#*"/modules/$kernel/"}
        mkdir -p "${copy%/*}"
        case $file in
        *.xz) xz -dc "$file" >"${copy%.xz}" ;;
        *) cp "$file" "$copy" ;;
        esac
    done <"$to/list"
    depmod -b "$to/modules" "$kernel"
    rm -f "$to/list" "$to/said"
}

# vm_fetch PACKAGE LINK: makes a kernel's directory, and LINK to it.
vm_fetch() {
    local work
    note "fetching $1 for the guest (once, some 100 MB)"
    work=$(mktemp -d "$PWD/making.XXXXXX")
    (
        cd "$work"
        package=$(vm_download "$1")
        mkdir all
        dpkg-deb --fsys-tarfile "$package"_*.deb |
            tar -x -C all --wildcards './boot/vmlinuz-*' '*lib/modules/*'
        kernel=${package#linux-image-}
        kernel=${kernel%-unsigned}
        vm_trim "$kernel" "$work/new"
        rm -rf "../$kernel-$vm_hash"
        mv new "../$kernel-$vm_hash"
        ln -sfn "$kernel-$vm_hash" "../$2"
    ) || { rm -rf "$work"; die "the guest has no kernel"; }
    rm -rf "$work"
}

# vm_make_initrd KERNEL FILE: in the kernel's directory. busybox, the modules, and initrd-init.sh,
# which says what happens then.
vm_make_initrd() {
    local module
    rm -rf root
    mkdir -p root/{bin,dev,lib,proc,sys}
    cp "$(command -v busybox)" root/bin/busybox
    install -m 755 "$vm_here/initrd-init.sh" root/init
    cp -r modules/lib/modules root/lib/modules
    for module in "${vm_boot_modules[@]}"; do
        modprobe -d "$PWD/modules" -S "$1" --show-depends "$module"
    done | awk '$1 == "insmod" && !seen[$2]++ { sub(".*/lib/modules/", "/lib/modules/", $2); print $2 }' \
        >root/lib/modules/boot
    (cd root && find . | cpio -o -H newc --quiet | gzip -1) >"$2.new"
    rm -rf root
    mv "$2.new" "$2"
}

# vm_prepare CACHE: sets vm_kernel, vm_image and vm_initrd; makes them if they are not there. Without
# RDMAD_VM_KERNEL the kernel is Debian's current one of the day when the cache was made.
vm_prepare() {
    local name=${RDMAD_VM_KERNEL:-linux-image-amd64} link initrd vm_hash
    [ "$(dpkg --print-architecture)" = amd64 ] || die "the guest is for amd64 machines only"
    mkdir -p "$1"
    vm_hash=$(sha256sum <"$vm_here/kernel.sh" | cut -c1-12)
    initrd=initrd-$(sha256sum <"$vm_here/initrd-init.sh" | cut -c1-12)
    link=$name-$vm_hash
    exec 8>"$1/lock"
    flock 8
    (
        set -e
        cd "$1"
        [ -f "$link/vmlinuz" ] || vm_fetch "$name" "$link"
        cd "$(realpath "$link")"
        [ -f "$initrd" ] || vm_make_initrd "$(basename "$PWD" "-$vm_hash")" "$initrd"
    ) || exit 1
    exec 8>&-
    vm_kernel=$(realpath "$1/$link")
    # shellcheck disable=SC2034 # used by those who source this
    vm_image=$vm_kernel/vmlinuz vm_initrd=$vm_kernel/$initrd
}
