// A storage server for your tests: copy this file. It starts `lazuli` on free ports with a directory of its own and takes both away when it
// is stopped. Nothing is shared with another run, so runs may be side by side. The program is looked for in LAZULI_BIN, then in PATH.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";

const FLAGS = ["blob", "queue", "table", "file", "smb"].flatMap((service) => [`--${service}-port`, "0"]).concat("--console-port", "off");

// { connection, stop }: a connection string of all four services, and what ends the server.
export async function startLazuli() {
  const directory = await mkdtemp(path.join(tmpdir(), "lazuli-"));
  const server = spawn(process.env.LAZULI_BIN ?? "lazuli", ["serve", "--data", directory, ...FLAGS], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => server.once("close", resolve));
  const stop = async () => {
    server.kill("SIGTERM");
    await ended;
    await rm(directory, { recursive: true, force: true });
  };
  const failed = new Promise((_, reject) => server.once("error", reject));
  const ready = new Promise((resolve, reject) => {
    let connection;
    const lines = createInterface({ input: server.stdout });
    lines.on("line", (line) => {
      connection ??= line.match(/DefaultEndpointsProtocol=\S+/)?.[0];
      if (line.startsWith("ready")) resolve(connection);
    });
    lines.once("close", () => reject(new Error("lazuli ended before it was ready; it said why above")));
  });
  try {
    return { connection: await Promise.race([ready, failed]), stop };
  } catch (error) {
    server.kill("SIGKILL");
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
}
