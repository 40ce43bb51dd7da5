// Makes a certificate authority in a folder, with server certificates good and bad.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface CertificateFiles {
  readonly keyFile: string
  readonly certFile: string
}

const LOOPBACK = ['DNS:localhost', 'IP:127.0.0.1', 'IP:::1']
const EC_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

/** Their text, as TLS takes it. */
export const pemOf = ({ keyFile, certFile }: CertificateFiles) => ({
  key: readFileSync(keyFile, 'utf8'),
  cert: readFileSync(certFile, 'utf8')
})

/** Needs the `openssl` command. */
export const createCertificateAuthority = (folder: string) => {
  const path = (file: string) => join(folder, file)
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' })
  const selfSign = (name: string, extensions: string[]): CertificateFiles => {
    const files = { keyFile: path(`${name}.key`), certFile: path(`${name}.crt`) }
    const added = extensions.flatMap(extension => ['-addext', extension])
    const subject = ['-subj', `/CN=${name}`, '-days', '2']
    openssl('req', '-x509', ...EC_KEY, '-keyout', files.keyFile, '-out', files.certFile, ...subject, ...added)
    return files
  }
  const authority = selfSign('test-authority', ['keyUsage=critical,keyCertSign'])
  writeFileSync(path('index.txt'), '')
  writeFileSync(
    path('ca.cnf'),
    `[ca]\ndefault_ca=own\n[own]\ndatabase=${path('index.txt')}\nnew_certs_dir=${folder}\nrand_serial=yes\n` +
      'default_md=sha256\npolicy=any\nunique_subject=no\ncopy_extensions=copy\n[any]\ncommonName=supplied\n'
  )

  return {
    caFile: authority.certFile,
    /** PEM text. */
    ca: readFileSync(authority.certFile, 'utf8'),
    /** A server certificate. `names` as in subjectAltName: `DNS:localhost`, `IP:127.0.0.1`. */
    issue(name: string, { names = LOOPBACK, expired = false } = {}): CertificateFiles {
      const files = { keyFile: path(`${name}.key`), certFile: path(`${name}.crt`) }
      const request = ['-keyout', files.keyFile, '-out', path('request.csr'), '-subj', `/CN=${name}`]
      openssl('req', ...EC_KEY, ...request, '-addext', `subjectAltName=${names.join(',')}`)
      const life = ['-startdate', '20200101000000Z', '-enddate', expired ? '20200102000000Z' : '20991231000000Z']
      const signer = ['-config', path('ca.cnf'), '-cert', authority.certFile, '-keyfile', authority.keyFile]
      openssl('ca', '-batch', '-notext', ...signer, ...life, '-in', path('request.csr'), '-out', files.certFile)
      return files
    },
    /** A certificate that vouches only for itself. */
    selfSigned: (name: string, names = LOOPBACK) =>
      selfSign(name, names.length === 0 ? [] : [`subjectAltName=${names.join(',')}`])
  }
}
