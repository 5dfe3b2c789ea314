# The gateway alone: a static binary that needs no shell, no C library and no
# system's list of authorities (brokers' authorities always come from a file).
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -o /doorkeeper ./cmd/doorkeeper

FROM scratch
COPY --from=build /doorkeeper /doorkeeper
USER 65532:65532
ENTRYPOINT ["/doorkeeper"]
CMD ["serve", "--config", "/etc/doorkeeper/doorkeeper.yaml"]
