// Issues the certificate with which a peer speaks TLS.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createCertificateAuthority } from '../../../test/support/certificates.ts'
import type { World } from '../world.ts'

/** `pemFile`: certificate and key in one file, for HAProxy. */
export const issueCertificate = async (world: World) => {
  const folder = await world.folder('certificates')
  const { certFile, keyFile } = createCertificateAuthority(folder).issue('localhost')
  const pemFile = join(folder, 'both.pem')
  await writeFile(pemFile, (await readFile(certFile, 'utf8')) + (await readFile(keyFile, 'utf8')))
  return { certFile, keyFile, pemFile, env: { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile } }
}
