// A proxy with one mistake beyond its reading of paths is found out, with its remedy.
// RW-07, RW-23, RW-27, RT-16, RT-17, RT-30, RT-34, HD-01, HD-02, HD-09, HD-12, HD-24, HD-30, JW-01 to JW-05, JW-16, JW-19, JW-23, WS-01, WS-02
import t from 'tap'
import { checkFoundOut } from '../support/doctor.ts'
import { ERRS } from '../support/vulnerable-proxy.ts'

t.test('a proxy with one mistake is found out, with its remedy', t => checkFoundOut(t, ERRS))
