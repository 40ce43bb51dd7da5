// A certificate authority of the test's own, with server certificates good and bad, lies in a folder.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface CertificateFiles {
  readonly keyFile: string
  readonly certFile: string
}

export interface CertificateAuthority {
  readonly caFile: string
  /** PEM text. */
  readonly ca: string
  /** A server certificate. `names` as in subjectAltName: `DNS:localhost`, `IP:127.0.0.1`. */
  issue(name: string, options?: { names?: string[]; expired?: boolean }): CertificateFiles
  /** A certificate that vouches only for itself. */
  selfSigned(name: string, names?: string[]): CertificateFiles
}

const LOOPBACK = ['DNS:localhost', 'IP:127.0.0.1', 'IP:::1']
const EC_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

/** Needs the `openssl` command. */
export const createCertificateAuthority = (folder: string): CertificateAuthority => {
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
    ca: readFileSync(authority.certFile, 'utf8'),
    issue: (name, { names = LOOPBACK, expired = false } = {}) => {
      const files = { keyFile: path(`${name}.key`), certFile: path(`${name}.crt`) }
      const altNames = ['-addext', `subjectAltName=${names.join(',')}`]
      openssl(
        'req',
        ...EC_KEY,
        '-keyout',
        files.keyFile,
        '-out',
        path('request.csr'),
        '-subj',
        `/CN=${name}`,
        ...altNames
      )
      const life = expired ? ['20200101000000Z', '20200102000000Z'] : ['20200101000000Z', '20991231000000Z']
      const [startDate = '', endDate = ''] = life
      const signer = [
        '-cert',
        authority.certFile,
        '-keyfile',
        authority.keyFile,
        '-startdate',
        startDate,
        '-enddate',
        endDate
      ]
      openssl(
        'ca',
        '-batch',
        '-notext',
        '-config',
        path('ca.cnf'),
        '-in',
        path('request.csr'),
        '-out',
        files.certFile,
        ...signer
      )
      return files
    },
    selfSigned: (name, names = LOOPBACK) =>
      selfSign(name, names.length === 0 ? [] : [`subjectAltName=${names.join(',')}`])
  }
}
