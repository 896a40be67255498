#!/bin/bash
# Becomes PID 1 of a machine made of this machine's own root: an overlay whose changes live in memory, own /dev, /run,
# /tmp and cgroup, no network but its loopback. machine.py calls it in fresh namespaces:  boot.sh SCRATCH CHECKOUT
set -eu
scratch=$1 checkout=$2
mount --make-rprivate /

mount -t tmpfs -o mode=755 tmpfs "$scratch"
mkdir "$scratch/changes" "$scratch/work" "$scratch/root"
root=$scratch/root
mount -t overlay -o "lowerdir=/,upperdir=$scratch/changes,workdir=$scratch/work" overlay "$root"

mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"

mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
  IFS=: read -r name major minor <<<"$device"
  mknod -m 666 "$root/dev/$name" c "$major" "$minor"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"; ln -s fd/1 "$root/dev/stdout"; ln -s fd/2 "$root/dev/stderr"

# The checkout at a place that ProtectHome= does not hide, wherever the developer keeps it.
mkdir -p "$root/opt/checkout" "$root/opt/inboxd/bin"
mount --bind -o ro "$checkout" "$root/opt/checkout"
install -m 755 /dev/stdin "$root/opt/inboxd/bin/inboxd" <<'EOF'
#!/bin/sh
PYTHONPATH=/opt/checkout/daemon:/opt/checkout/tests/systemd/plugin PYTHONDONTWRITEBYTECODE=1 \
  exec /opt/checkout/.venv/bin/python -m inboxd "$@"
EOF

# A bare multi-user.target and the journal: nothing of this machine's own services.
units=$root/etc/systemd/system
mkdir -p "$units"
rm -rf "$units"/*.wants "$units"/inboxd* "$root/var/log/journal" "$root/var/lib/inboxd" "$root/etc/inboxd"
ln -sf /lib/systemd/system/multi-user.target "$units/default.target"
for unit in systemd-logind systemd-networkd systemd-resolved systemd-timesyncd systemd-user-sessions systemd-firstboot \
  systemd-update-utmp-runlevel e2scrub_reap; do ln -sf /dev/null "$units/$unit.service"; done
for unit in getty.target remote-fs.target apt-daily.timer; do ln -sf /dev/null "$units/$unit"; done
for script in "$root"/etc/init.d/*; do ln -sf /dev/null "$units/$(basename "$script").service"; done
: >"$root/etc/machine-id"
mkdir -p "$root/etc/systemd/journald.conf.d"
printf '[Journal]\nStorage=volatile\nRateLimitIntervalSec=0\n' >"$root/etc/systemd/journald.conf.d/test.conf"

mkdir -p "$root/mnt/host"
cd "$root"
pivot_root . mnt/host
cd /
umount -l /mnt/host
mount --make-rshared /  # what a booted machine has, and what the units' own mounts rely on
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 container=inboxd-test \
  /lib/systemd/systemd --system --log-target=journal-or-kmsg --show-status=no
