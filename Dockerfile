# One service per image: docker build --build-arg SERVICE=ledger-writer -t hotledger/ledger-writer .
FROM golang:1.26-bookworm AS build
ARG SERVICE
WORKDIR /src
COPY . .
RUN cd "$SERVICE" && CGO_ENABLED=0 GOWORK=off go build -trimpath -o /service "./cmd/$SERVICE"

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /service /service
# Metrics, liveness and readiness, where METRICS_ADDR says so.
EXPOSE 9100
ENTRYPOINT ["/service"]
