// The rule of access is at hand where requests are judged; it lives beside the routes, whose tests it also judges.
export {
  type AllowReason,
  type Asker,
  type DecideOptions,
  type Decision,
  decide,
  judgePerson,
  type RefusalStatus
} from '../routes/decide.ts'
