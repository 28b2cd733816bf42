// A switch of OpenFlow 1.0 that says of itself what a test wants, and does nothing else.
import {once} from "node:events";
import {connect} from "node:net";

const HELLO = 0, ECHO_REQUEST = 2, ECHO_REPLY = 3, FEATURES_REQUEST = 5, FEATURES_REPLY = 6, GET_CONFIG_REQUEST = 7, GET_CONFIG_REPLY = 8, PACKET_IN = 10;
const STATS_REQUEST = 16, STATS_REPLY = 17, BARRIER_REQUEST = 18, BARRIER_REPLY = 19;

function text(value, length) {
  const bytes = Buffer.alloc(length);
  bytes.write(value);
  return bytes;
}

export class FakeSwitch {
  /** Connects to a controller, with so many ports that have the same name. */
  static async connect(address, {dpid, description, port, ports = 1}) {
    const own = new FakeSwitch();
    const [host, number] = address.split(":");
    own.socket = connect(Number(number), host);
    own.rest = Buffer.alloc(0);
    own.about = {dpid, description, port, ports};
    await once(own.socket, "connect");
    own.send(HELLO, 0, Buffer.alloc(0));
    own.socket.on("data", (data) => own.read(data));
    own.socket.on("error", () => undefined);
    return own;
  }

  end() {
    this.socket.destroy();
  }

  /** Says that a host at a port, with this number as its address, has sent a packet to another one that nobody knows. */
  hear(port, host) {
    const frame = Buffer.alloc(60);
    frame.writeUIntBE(0x02ffffffffff, 0, 6);
    frame.writeUIntBE(host, 6, 6);
    frame.writeUInt16BE(0x88b5, 12);
    const head = Buffer.alloc(10);
    head.writeUInt32BE(0xffffffff, 0);
    head.writeUInt16BE(frame.length, 4);
    head.writeUInt16BE(port, 6);
    this.send(PACKET_IN, 0, Buffer.concat([head, frame]));
  }

  send(type, id, body) {
    const head = Buffer.alloc(8);
    head.writeUInt8(1, 0);
    head.writeUInt8(type, 1);
    head.writeUInt16BE(8 + body.length, 2);
    head.writeUInt32BE(id, 4);
    this.socket.write(Buffer.concat([head, body]));
  }

  read(data) {
    this.rest = Buffer.concat([this.rest, data]);
    while (this.rest.length >= 8 && this.rest.length >= this.rest.readUInt16BE(2)) {
      const length = this.rest.readUInt16BE(2);
      this.answer(this.rest.readUInt8(1), this.rest.readUInt32BE(4), this.rest.subarray(8, length));
      this.rest = this.rest.subarray(length);
    }
  }

  answer(type, id, body) {
    const {dpid, description, port, ports} = this.about;
    if (type === ECHO_REQUEST) {
      this.send(ECHO_REPLY, id, body);
    } else if (type === FEATURES_REQUEST) {
      const head = Buffer.alloc(24);
      head.writeBigUInt64BE(dpid, 0);
      head.writeUInt32BE(256, 8);
      head.writeUInt8(1, 12);
      const own = Array.from({length: ports}, (_, at) => Buffer.concat([Buffer.from([0, 1 + at, 2, 0, 0, 0, 1 + at, 0x77]), text(port, 16), Buffer.alloc(24)]));
      this.send(FEATURES_REPLY, id, Buffer.concat([head, ...own]));
    } else if (type === GET_CONFIG_REQUEST) {
      this.send(GET_CONFIG_REPLY, id, Buffer.from([0, 0, 0xff, 0xff]));
    } else if (type === BARRIER_REQUEST) {
      this.send(BARRIER_REPLY, id, Buffer.alloc(0));
    } else if (type === STATS_REQUEST) {
      const isDescription = body.readUInt16BE(0) === 0;
      const all = isDescription ? [text(description, 256), text(description, 256), text(description, 256), text("1", 32), text(description, 256)] : [];
      this.send(STATS_REPLY, id, Buffer.concat([body.subarray(0, 4), ...all]));
    }
  }
}
