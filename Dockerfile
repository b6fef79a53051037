# SPDX-License-Identifier: Apache-2.0
# `make image` builds it. The data directory is the volume /data; an API key comes from SLIPSTREAM_API_KEY, without which a
# bind beyond loopback is refused:
#
#   docker run -e SLIPSTREAM_API_KEY=… -p 127.0.0.1:8000:8000 -v slipstream-data:/data slipstream
FROM debian:12 AS build
RUN apt-get update && apt-get install -y --no-install-recommends git make ca-certificates
COPY . /src
WORKDIR /src
RUN make && cmake --install build --prefix /opt/slipstream --strip
# The shared libraries that the program loads, LibTorch's among them, without the rest of the Python environment. Each
# lies in its folder's real place: /lib is a link in the image below, and COPY does not replace a link by a folder. The
# loader finds LibTorch there, as the folders that the program names are no links.
RUN ldd /opt/slipstream/bin/slipstream | awk '$3 ~ "^/" {print $3}' | while read -r library; do \
    install -D "$(realpath "$library")" "/opt/libraries$(realpath "$(dirname "$library")")/$(basename "$library")" || \
    exit 1; done

FROM debian:12-slim
COPY --from=build /opt/libraries/ /
COPY --from=build /opt/slipstream /opt/slipstream
RUN useradd --system --no-create-home slipstream && install -d -m 700 -o slipstream /data
USER slipstream
WORKDIR /opt/slipstream/share/slipstream
VOLUME /data
EXPOSE 8000
# Signals reach the program itself: SIGTERM drains, saves and exits.
ENTRYPOINT ["/opt/slipstream/bin/slipstream", "serve", "--data-dir", "/data", "--host", "0.0.0.0"]
CMD ["-c", "/opt/slipstream/etc/slipstream/slipstream.toml"]
